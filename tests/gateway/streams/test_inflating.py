import gzip
import zlib

import pytest

from labrunner.gateway.streams.inflating import Inflater, Unreadable, choose_encodings, inflate

TEXT = b"data: hello\n\n" * 50


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("Deflate", zlib.compress(TEXT)),
        ("", TEXT),
        ("identity", TEXT),
    ],
)
def test_a_body_in_single_bytes_is_read(encoding: str, body: bytes) -> None:
    inflater = Inflater(encoding)
    assert b"".join(inflater.feed(body[at : at + 1]) for at in range(len(body))) == TEXT
    assert inflater.is_whole


def test_a_bomb_is_refused_before_it_is_inflated() -> None:
    with pytest.raises(Unreadable, match="more than can be read"):
        inflate(gzip.compress(bytes(10 << 20)), "gzip", most=1 << 20)


@pytest.mark.parametrize(
    ("encoding", "body", "why"),
    [
        ("br", TEXT, "'br' can't be read here"),
        ("gzip", TEXT, "not compressed as its header says"),
        ("gzip", gzip.compress(TEXT, mtime=0)[:-9], "ends too early"),
    ],
)
def test_what_can_not_be_read_is_told_with_its_reason(encoding: str, body: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        inflate(body, encoding)


def test_a_provider_is_only_asked_for_what_can_be_read() -> None:
    assert choose_encodings("gzip, deflate, br;q=0.5, zstd", is_plain=False) == "gzip, deflate"
    assert choose_encodings("br", is_plain=False) == "identity"
    assert choose_encodings(None, is_plain=False) == "identity"
    assert choose_encodings("gzip", is_plain=True) == "identity"
