"""What a call says on one of its streams, up to the line that says that the call has ended."""

from labrunner.sandbox.execution import cut


class Capture:
    """Keeps at most so many bytes: the first half, and the last."""

    def __init__(self, most: int, mark: str) -> None:
        """Wait for a line that begins with the mark and ends with an exit status; no mark: for the end."""
        self._most = most
        self._mark = f"\n{mark} ".encode() if mark else b""
        self._head = b""
        self._tail = b""
        self._left_out = 0
        self._held = b""
        self.status: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether the line has come."""
        return self.status is not None

    @property
    def is_cut(self) -> bool:
        """Whether something was left out."""
        return self._left_out > 0

    @property
    def data(self) -> bytes:
        """What was said, without the line."""
        whole = self._held if not self.is_over else b""
        head, tail = self._head, self._tail + whole
        return cut(head, tail, self._left_out) if self._left_out else head + tail

    def add(self, data: bytes) -> None:
        """Take in more."""
        if self.is_over:
            return
        data = self._held + data
        at = data.find(self._mark) if self._mark else -1
        if at >= 0:
            end = data.find(b"\n", at + 1)
            if end >= 0:
                self._keep(data[:at])
                text = data[at + len(self._mark) : end]
                self.status = int(text) if text.isdigit() else 1
                return
            self._keep(data[:at])
            self._held = data[at:]
            return
        # A mark may be cut in two: as much as it is long waits for what follows.
        keep = max(0, len(data) - len(self._mark)) if self._mark else len(data)
        self._keep(data[:keep])
        self._held = data[keep:]

    def _keep(self, data: bytes) -> None:
        room = self._most // 2 - len(self._head)
        if room > 0:
            self._head, data = self._head + data[:room], data[room:]
        self._tail += data
        over = len(self._tail) - (self._most - self._most // 2)
        if over > 0:
            self._tail = self._tail[over:]
            self._left_out += over
