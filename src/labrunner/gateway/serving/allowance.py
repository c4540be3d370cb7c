"""How many bytes of requests an attempt may have the gateway keep at once.

Rule: what a request takes it gives back when its answer is over, however that ends.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from labrunner.gateway.serving.wire import BadRequest

MAX_HELD: Final = 128 << 20

Take = Callable[[int], None]
"""Takes some bytes more. Raises BadRequest."""


class Allowance:
    """What one attempt has left."""

    def __init__(self, most: int = MAX_HELD) -> None:
        """All of it is left."""
        self._most = most
        self._left = most

    @contextmanager
    def holding(self) -> Iterator[Take]:
        """For one request."""
        held = 0

        def take(size: int) -> None:
            nonlocal held
            if size > self._left:
                told = (
                    f"the requests of this attempt that are under way have more than {self._most >> 20} MiB"
                )
                raise BadRequest(503, f"{told} together: wait for some of them to end")
            self._left -= size
            held += size

        try:
            yield take
        finally:
            self._left += held
