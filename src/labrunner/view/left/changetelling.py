"""Changes of one file after another, each with its patch, until there is too much to show.

Rules: a file is told by the digest of its content, which is how it is asked for. What is no text, or too long
for a patch, is told as such.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from labrunner.files.strangers.hostile import open_below
from labrunner.files.strangers.sealing import TreeEntry, say_name
from labrunner.view.left.linediff import Effort, write_patch

MOST_CHANGES: Final = 300
LONGEST_TEXT: Final = 256 * 1024
"""Bytes of a file up to which it is compared line by line."""
MOST_LINES: Final = 1_000
MOST_PATCHES: Final = 600_000
"""Characters of all patches together: beyond them files are only named."""
FILES: Final = frozenset({"file", "program"})
How = Literal["added", "changed", "deleted", "mode", "kept", "written"]
"""`written`: added or changed, which can't be told where it is not known what was there."""


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file, link or empty folder."""

    path: str
    how: How
    kind: str
    size: int = 0
    digest: str | None = None
    """Of a file that is there: what to ask for it by."""
    patch: str | None = None
    why_none: str | None = None
    """Why there is no patch, where one could be expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What a path held, then or now."""

    folder: Path
    entry: TreeEntry | None
    mask: Callable[[bytes], bytes] = bytes
    data: bytes | None = None
    """What it holds, where that lies in no file of its own."""

    def read(self) -> tuple[str, str | None]:
        """What it says, and why that can't be told."""
        entry = self.entry
        if entry is None:
            return "", None
        if entry.kind == "link":
            return f"a link to {say_name(entry.content)}\n", None
        if entry.kind not in FILES:
            return "", entry.kind
        if entry.size > LONGEST_TEXT:
            return "", "too long to be compared"
        try:
            data = self.mask(self._take(entry))
            return ("", "no text") if b"\0" in data else (data.decode(), None)
        except UnicodeDecodeError:
            return "", "no text"
        except OSError as error:
            return "", f"can't be read: {error.strerror}"

    def _take(self, entry: TreeEntry) -> bytes:
        if self.data is not None:
            return self.data
        with open_below(self.folder, entry.path) as file:
            return file.read(LONGEST_TEXT + 1)


@dataclass(slots=True)
class ChangeTeller:
    """Writes patches until there is no room for more."""

    room: int = MOST_PATCHES
    told: int = 0
    effort: Effort = field(default_factory=Effort)

    def tell(self, then: Side, now: Side, how: How) -> Change | None:
        """A change; None where nothing is another than secrets, which what is kept does not hold."""
        patch, why = self._compare(then, now)
        entry = now.entry or then.entry
        assert entry is not None
        if how == "changed" and then.entry and now.entry and patch == "" and why is None:
            if now.entry.kind == then.entry.kind:
                return None
            how = "mode"
        self.told += 1
        is_there = now.entry is not None and entry.kind in FILES
        return Change(
            path=say_name(entry.path),
            how=how,
            kind=entry.kind,
            size=entry.size if entry.kind in FILES else 0,
            digest=entry.content if is_there else None,
            patch=patch or None,
            why_none=why,
        )

    def _compare(self, then: Side, now: Side) -> tuple[str, str | None]:
        if self.told >= MOST_CHANGES or self.room <= 0:
            return "", "too much was changed to be shown at once"
        (old, why), (new, why_new) = then.read(), now.read()
        if why or why_new:
            return "", why or why_new
        patch = write_patch(old, new, MOST_LINES, self.effort)
        self.room -= len(patch)
        return patch, None
