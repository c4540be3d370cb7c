"""How figures are written for people: durations, shares, sizes, counts. Plain ASCII."""

from typing import Final

from labrunner.analysis.judging.numbers import write_number

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def format_duration(seconds: float) -> str:
    """Write a duration: `0:07`, `12:30`, `3:05:00`."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def format_seconds(seconds: float) -> str:
    """Write a short duration: `0.012 s`, `3.4 s`; minutes and more as a clock does."""
    if seconds == 0:
        return "0 s"
    if seconds >= 120:
        return format_duration(seconds)
    return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.1f} s"


def format_share(share: float) -> str:
    """Write a share in percent; never 100% for less than all, nor 0% for more than nothing."""
    percent = round(share * 100)
    if percent == 100 and share < 1:
        return "99%"
    if percent == 0 and share > 0:
        return "1%"
    return f"{percent}%"


def format_size(size: float) -> str:
    """Write a number of bytes: `512 B`, `1.5 MB`."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size /= 1000
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"


def format_count(number: int, noun: str, nouns: str | None = None) -> str:
    """Write a number with its noun: `1 trial`, `2 trials`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {nouns or f'{noun}s'}"


def format_usd(amount: float) -> str:
    """Write an amount of money: `$12.30`, `$0.0042`; calls cost fractions of a cent."""
    if amount >= 1 or amount == 0:
        return f"${amount:,.2f}"
    whole, _, cents = f"{amount:.6f}".rstrip("0").partition(".")
    return f"${whole}.{cents:<02}"


def format_figure(value: float | None) -> str:
    """Write a mean; `-` when there is none."""
    if value is None:
        return "-"
    return write_number(value)


def format_range(low: float | None, high: float | None) -> str:
    """Write an interval; `undefined` when the data can't carry one."""
    return "undefined" if low is None or high is None else f"{format_figure(low)} to {format_figure(high)}"


def write_p(value: float) -> str:
    """Write a p-value for a column that is headed `p`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
