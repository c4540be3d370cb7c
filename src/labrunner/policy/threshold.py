"""When errors fail a run: `fail_on_error`.

`True` fails at the first errored trial, `False` never; a share fails when *more than* that share of the
planned trials have errors, a count when *more than* that many have. Strictly more, in both.
"""

from fractions import Fraction


def is_over(fail_on_error: bool | float, *, errors: int, planned: int) -> bool:
    """Whether `errors` trials with errors, of `planned`, are more than `fail_on_error` tolerates."""
    if fail_on_error is True:
        return errors > 0
    if fail_on_error is False:
        return False
    if fail_on_error < 1:
        return errors > tolerated_share(fail_on_error) * planned
    return errors > fail_on_error


def tolerated_share(share: float) -> Fraction:
    """The share as people wrote it: 0.1 is a tenth, not the float next to it."""
    return Fraction(repr(share))
