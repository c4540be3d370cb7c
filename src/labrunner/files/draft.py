"""Directories that appear whole or not at all: made under a name that listings ignore, then put in place."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from labrunner.files.durable import exchange, storing, sync_folder
from labrunner.files.points import reach
from labrunner.files.scraps import RECOVERY, hold, is_abandoned
from labrunner.files.strangers.removal import remove_tree

_STALE_S: Final = 24 * 3600


@contextmanager
def draft_beside(place: Path) -> Iterator[Path]:
    """A folder beside `place` to make something in; gone afterwards, unless this process is killed."""
    with storing("making a folder beside", place):
        place.parent.mkdir(parents=True, exist_ok=True)
        remove_drafts(place.parent, before=time.time() - _STALE_S)
        drafts = place.with_name(f"{RECOVERY}{place.name}-{secrets.token_hex(4)}")
        drafts.mkdir()
    try:
        with hold(drafts):
            yield drafts
    finally:
        remove_tree(drafts)


def remove_drafts(folder: Path, *, before: float) -> None:
    """Remove what killed processes left behind before a time: nobody can be at it any more."""
    for drafts in folder.glob(f"{RECOVERY}*"):
        if drafts.stat().st_mtime < before and is_abandoned(drafts):
            remove_tree(drafts)


def put_in_place(made: Path, place: Path, *, replaces: bool) -> None:
    """Give a directory its name; one that it replaces goes in the same step, where the file system can."""
    with storing("putting in place", place):
        if not replaces:
            made.rename(place)  # refused when a directory that is not empty has the name by now
        elif not exchange(made, place):
            # Never hidden, even for a moment: should this process die here, it is found under this name.
            aside = place.with_name(f"{place.name}-replaced")
            place.rename(aside)
            reach("recover.replaced")
            made.rename(place)
            aside.rename(made)
        reach("recover.renamed")
        sync_folder(place.parent)
