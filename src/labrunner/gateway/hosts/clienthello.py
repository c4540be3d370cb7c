"""The greeting of TLS: which host a client wants to speak with, read from its first bytes. Pure.

Rules: a greeting may come in any pieces and in several records, but is bounded. What is not read to its end
by the rules is no greeting. What is encrypted in it (encrypted client hello) is not seen: only the name that
stands outside is; that there is such a part is told.
"""

from dataclasses import dataclass
from typing import Final

MAX_GREETING: Final = 32 << 10
HANDSHAKE: Final = 22
"""The first byte of a greeting."""
ALERT: Final = bytes.fromhex("15 03 01 00 02 02 70")
"""How a server tells that it does not know the name: clients show it as such."""
_MAX_RECORD: Final = 1 << 14
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_HIDDEN_HELLO: Final = 0xFE0D
_HOST_NAME: Final = 0


class NotTls(Exception):
    """Bytes that are no greeting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What a client said of itself."""

    name: str | None
    """The host that it wants; None where it named none."""
    hides_name: bool
    """Whether a part is encrypted, in which another name may stand."""


class GreetingReader:
    """Takes a connection's first bytes, in any pieces, each looked at once."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._rest = b""
        self._message = bytearray()
        self._size = 0

    def take(self, data: bytes) -> Greeting | None:
        """Go on; None while more is needed. Raises NotTls."""
        self._size += len(data)
        self._take_records(self._rest + data)
        if self._message and self._message[0] != _CLIENT_HELLO:
            raise NotTls("its first message is no greeting")
        if self._is_whole:
            return _read_hello(_Bytes(bytes(self._message[4 : self._end])))
        if self._size >= MAX_GREETING:
            raise NotTls(f"its greeting is longer than {MAX_GREETING >> 10} KiB")
        return None

    @property
    def _end(self) -> int:
        return 4 + int.from_bytes(self._message[1:4], "big")

    @property
    def _is_whole(self) -> bool:
        return len(self._message) >= 4 and len(self._message) >= self._end

    def _take_records(self, data: bytes) -> None:
        """Join what whole records hold; what comes after the greeting is none of our business."""
        at = 0
        while at < len(data) and not self._is_whole:
            head = data[at : at + 5]
            if head[0] != HANDSHAKE or (len(head) > 1 and head[1] != 3):
                raise NotTls("it is no TLS")
            size = int.from_bytes(head[3:5], "big")
            if len(head) == 5 and not 0 < size <= _MAX_RECORD:
                raise NotTls("a record of it is empty or too long")
            if len(head) < 5 or len(data) < at + 5 + size:
                break
            self._message += data[at + 5 : at + 5 + size]
            at += 5 + size
        self._rest = data[at:]


class _Bytes:
    """Takes fields off, one after the other."""

    def __init__(self, data: bytes) -> None:
        """Begin at the beginning."""
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise NotTls("its greeting breaks off")
        self._at += size
        return taken

    def take_rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def take_number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def take_sized(self, size: int) -> "_Bytes":
        return _Bytes(self.take(self.take_number(size)))


def _read_hello(hello: _Bytes) -> Greeting:
    hello.take(2 + 32)  # version, random
    for size in (1, 2, 1):  # session, ciphers, compressions
        hello.take_sized(size)
    extensions = {} if hello.is_over else _read_extensions(hello.take_sized(2))
    if not hello.is_over:
        raise NotTls("its greeting has more than belongs there")
    names = extensions.get(_SERVER_NAME)
    return Greeting(name=None if names is None else _read_name(names), hides_name=_HIDDEN_HELLO in extensions)


def _read_extensions(rest: _Bytes) -> dict[int, _Bytes]:
    found: dict[int, _Bytes] = {}
    while not rest.is_over:
        kind = rest.take_number(2)
        if kind in found:
            raise NotTls("its greeting says something twice")
        found[kind] = rest.take_sized(2)
    return found


def _read_name(extension: _Bytes) -> str:
    names = extension.take_sized(2)
    kind, name = names.take_number(1), names.take_sized(2)
    if kind != _HOST_NAME or not names.is_over or not extension.is_over:
        raise NotTls("its greeting does not name one host")
    try:
        return name.take_rest().decode("ascii")
    except UnicodeDecodeError as error:
        raise NotTls("the name in its greeting is none of DNS") from error
