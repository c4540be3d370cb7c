"""Plain lines for people. What authors and sandboxes wrote may stand in them, so each is made safe first."""

import sys

from labrunner.display.text.safetext import sanitise


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{sanitise(text)}\n")


def say_aside(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{sanitise(text)}\n")
