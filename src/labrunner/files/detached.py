"""Starting a process that goes on without us: a session of its own, and none of our descriptors."""

import os
import resource
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any


def spawn_detached(argv: list[str], env: Mapping[str, str], actions: Sequence[Any]) -> int:
    """Start a program; of descriptors it gets what `actions` (of `os.posix_spawn`) give it, and error output.

    Whoever starts it reaps it. Raises OSError.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = inheritable_fds()
    # Numbers beyond a limit that was lowered after they were opened can't be named in an action.
    beyond = [fd for fd in found if 0 <= limit <= fd]
    close = [(os.POSIX_SPAWN_CLOSE, fd) for fd in found if fd not in beyond]
    for fd in beyond:
        os.set_inheritable(fd, False)
    try:
        return os.posix_spawn(argv[0], argv, env, file_actions=[*close, *actions], setsid=True)
    finally:
        for fd in beyond:
            os.set_inheritable(fd, True)


def inheritable_fds() -> list[int]:
    """List descriptors that a child would inherit: some of them were our own parent's."""
    found = []
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - names are all that is wanted
        with suppress(OSError):  # the listing's own, closed by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found
