"""A connection that ends so that nobody takes what came for the whole.

An answer may be as long as its connection lives. Closed as usual, half of one would look whole.
"""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Final

_AT_ONCE: Final = struct.pack("ii", 1, 0)


def cut(writer: asyncio.StreamWriter) -> None:
    """End a connection by a reset: whoever reads at the other end gets an error, and no end of file."""
    with suppress(OSError):  # gone already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()
