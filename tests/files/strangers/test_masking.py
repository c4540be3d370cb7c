import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labrunner.files.strangers.masking import make_masker

SECRET = "correct-horse-battery"


def test_each_occurrence_is_counted_and_replaced_by_the_name() -> None:
    data, count = make_masker({"KEY": SECRET}).mask(f"a {SECRET} b {SECRET}".encode())

    assert (data, count) == (b"a [masked:KEY] b [masked:KEY]", 2)


@pytest.mark.parametrize("before", ["", "u", "us", "use"])
@pytest.mark.parametrize("after", ["", "r", "rs"])
def test_base64_is_found_at_every_alignment(before: str, after: str) -> None:
    encoded = base64.b64encode(f"{before}{SECRET}{after}".encode())

    data, count = make_masker({"KEY": SECRET}).mask(b"Authorization: Basic " + encoded)

    assert count == 1
    assert SECRET not in str(data)
    assert encoded not in data


def test_a_value_is_found_as_python_writes_it() -> None:
    value = 'sk-Zq9/x+8"weird\\7$tok'
    data, count = make_masker({"KEY": value}).mask(f"KeyError: {value!r}".encode())
    assert count == 1
    assert b"weird" not in data


def test_short_values_are_left_alone() -> None:
    assert make_masker({"PIN": "1234567"}).mask(b"1234567") == (b"1234567", 0)


def test_a_secret_inside_a_longer_one_does_not_hide_it() -> None:
    masker = make_masker({"SHORT": "abcdefgh", "LONG": "xxabcdefghxx"})

    assert masker.mask(b"xxabcdefghxx")[0] == b"[masked:LONG]"


@given(st.binary(), st.binary())
def test_no_secret_survives(before: bytes, after: bytes) -> None:
    masked, count = make_masker({"KEY": SECRET}).mask(before + SECRET.encode() + after)

    assert count >= 1
    assert SECRET.encode() not in masked
