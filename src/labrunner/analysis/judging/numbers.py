"""How figures are written in sentences and tables.

Rule: a figure that is not zero is never written as one, nor is zero given a sign: an interval that ends at
0.0003 leaves out zero, and must look like it.
"""

from typing import Final

_NOTHING: Final = 1e-9
"""Less is rounding."""


def write_number(value: float) -> str:
    """Three decimals; more of a very small one, fewer of a large one."""
    if abs(value) < _NOTHING:
        return "0.000"
    if abs(value) < 0.0005:
        return f"{value:.2g}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.5g}"


def write_change(value: float) -> str:
    """The same with a sign: `+0.250`."""
    return f"+{write_number(value)}" if value > -_NOTHING else write_number(value)
