"""Names looked up by the system, outside of any sandbox.

Rule: lookups have threads of their own: one that hangs must not hold up who writes records.
"""

import asyncio
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from labrunner.experiment.allowlist import Address
from labrunner.gateway.hosts.internet import read_address
from labrunner.gateway.hosts.visitor import Resolve

_THREADS: Final = 32


@contextmanager
def open_resolver() -> Iterator[Resolve]:
    """Look names up by the system's own way (hosts file, DNS); those under way at the end are left alone."""
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lab-lookup")

    async def resolve(name: str) -> Sequence[Address]:
        return await asyncio.get_running_loop().run_in_executor(threads, _look_up, name)

    try:
        yield resolve
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _look_up(name: str) -> Sequence[Address]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(read_address(str(place[0])) for *_, place in found))
