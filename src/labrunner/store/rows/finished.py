"""Which slots are finished: a prefix that is committed, and single ones beyond it, one bit each."""


class FinishedSlots:
    """Slots with a durable result. Written by one thread; any thread may ask."""

    def __init__(self, *, planned: int, committed: int) -> None:
        """Begin with a committed prefix and nothing in the buffer."""
        self.planned = planned
        self.committed = committed
        self.buffered = 0
        self._bits = bytearray((planned + 7) // 8)

    def __contains__(self, idx: int) -> bool:
        """Whether a slot is committed or buffered."""
        return 0 <= idx < self.committed or self.is_buffered(idx)

    def is_buffered(self, idx: int) -> bool:
        """Whether a slot waits in the buffer."""
        return 0 <= idx < self.planned and bool(self._bits[idx >> 3] & (1 << (idx & 7)))

    def buffer(self, idx: int) -> None:
        """A slot is durable in the buffer."""
        if not self.is_buffered(idx):
            self._bits[idx >> 3] |= 1 << (idx & 7)
            self.buffered += 1

    def commit_to(self, stop: int) -> None:
        """Every slot before `stop` is committed."""
        for idx in range(self.committed, stop):
            if self.is_buffered(idx):
                self._bits[idx >> 3] &= ~(1 << (idx & 7)) & 0xFF
                self.buffered -= 1
        self.committed = stop
