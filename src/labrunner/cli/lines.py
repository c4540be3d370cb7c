"""What long steps report on the way (images pulled, containers that stay), as lines on standard error."""

import logging
import sys
from contextlib import suppress

from labrunner.display.text.safetext import sanitise


class Lines(logging.Handler):
    """Writes to whatever standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        with suppress(OSError):  # nobody looks any more: that is no reason for a run to end
            sys.stderr.write(f"{sanitise(record.getMessage())}\n")


def show() -> None:
    """Show reports of this program from now on."""
    log = logging.getLogger("labrunner")
    if not any(isinstance(handler, Lines) for handler in log.handlers):
        log.addHandler(Lines())
        log.setLevel(logging.INFO)
        log.propagate = False
