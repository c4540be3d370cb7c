"""What exit statuses mean by custom: of shells, of `timeout`, of processes that were killed.

A program may use them for something else.
"""

from typing import Final

TIMED_OUT: Final = 124
"""With what `timeout` ends."""
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
NO_COMMAND: Final = frozenset({NOT_EXECUTABLE, NOT_FOUND})
"""With what shells and sandboxes end where a command is not there or can't be executed."""
KILLED: Final = 137
"""Of a process that SIGKILL ended, be it by us or by the kernel for want of memory."""
