"""Where tests put agents: never where the user's own lie, whatever has been left there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

GIVEN = os.environ.get("LAB_TEST_AGENTS", "")


@contextmanager
def open_depot() -> Iterator[Path]:
    """A cache of our own, empty at first; or the one that `make agents` gives to all its tests."""
    with TemporaryDirectory(prefix="lab-agents-") as fresh, pytest.MonkeyPatch.context() as patch:
        place = GIVEN or fresh
        patch.setenv("XDG_CACHE_HOME", place)
        yield Path(place)
