import pytest

from labrunner.display.text.quantities import (
    format_count,
    format_duration,
    format_seconds,
    format_share,
    format_size,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (7.4, "0:07"), (59.6, "1:00"), (750, "12:30"), (11_100, "3:05:00"), (-1, "0:00")],
)
def test_durations_read_like_a_clock(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0123, "0.012 s"), (3.44, "3.4 s"), (119, "119.0 s"), (150, "2:30")]
)
def test_short_durations_keep_their_digits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.001, "1%"), (0.5, "50%"), (0.999, "99%"), (1, "100%")]
)
def test_a_share_never_claims_all_or_nothing_wrongly(share: float, text: str) -> None:
    assert format_share(share) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1_500_000, "1.5 MB"), (123_456_789, "123 MB"), (4e15, "4000 TB")],
)
def test_sizes_have_units(size: float, text: str) -> None:
    assert format_size(size) == text


def test_a_noun_follows_its_number() -> None:
    assert (format_count(1, "trial"), format_count(2_000, "trial")) == ("1 trial", "2,000 trials")
