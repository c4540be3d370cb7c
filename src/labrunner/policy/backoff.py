"""How long to wait before another try: twice as long each time, up to a ceiling.

Rules: this is the only such formula; whoever waits names its first and its longest wait. No dice in here:
`jitter` is a random number from 0 to 1 that the caller draws where many wait for the same thing.
"""

import math
from typing import Final

_FULL: Final = 1.0
_DOUBLINGS: Final = 60
"""More would only make a number too large to be written."""
_MORE: Final = 0.1


def wait_s(before: int, *, first_s: float, longest_s: float = math.inf, jitter: float = _FULL) -> float:
    """The wait that follows `before` others; jitter takes up to half of it away, and 1 takes nothing."""
    full = min(longest_s, first_s * 2.0 ** min(before, _DOUBLINGS))
    return full * (0.5 + 0.5 * jitter)


def heed(asked_s: float, *, jitter: float) -> float:
    """The wait that somebody asked for, and a little more: all who were refused were told the same."""
    return asked_s * (1 + _MORE * jitter)
