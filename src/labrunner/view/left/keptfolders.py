"""What an attempt left in its folders, held against what its task's workspace began with.

Rules: a file is told by the digest of its content, which is how it is asked for. What is no text, or too long
for a patch, is told as such. Changes are those of setup, agent and grader together: they share a workspace.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from labrunner.errors import InputError
from labrunner.files.strangers.hostile import open_below
from labrunner.files.strangers.sealing import TreeEntry, digest_entries, list_entries, say_name
from labrunner.files.strangers.usage import TooMany
from labrunner.records.completion import AttemptTiming
from labrunner.records.rows import SlotRows
from labrunner.store.layout import RunPaths
from labrunner.view.left.beginning import Beginnings, LaidOut
from labrunner.view.left.linediff import write_patch

WORKSPACE: Final = "workspace"
MOST_CHANGES: Final = 300
LONGEST_TEXT: Final = 256 * 1024
"""Bytes of a file up to which it is compared line by line."""
MOST_LINES: Final = 1_000
MOST_PATCHES: Final = 600_000
"""Characters of all patches together: beyond them files are only named."""
FILES: Final = frozenset({"file", "program"})
How = Literal["added", "changed", "deleted", "mode", "kept"]
Listing = dict[str, object]


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
class _Side:
    """What a path held, then or now."""

    folder: Path
    entry: TreeEntry | None
    mask: Callable[[bytes], bytes] = bytes

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
            with open_below(self.folder, entry.path) as file:
                data = self.mask(file.read(LONGEST_TEXT + 1))
            return ("", "no text") if b"\0" in data else (data.decode(), None)
        except UnicodeDecodeError:
            return "", "no text"
        except OSError as error:
            return "", f"can't be read: {error.strerror}"


@dataclass(slots=True)
class _Teller:
    """Writes patches until there is no room for more."""

    room: int = MOST_PATCHES
    told: int = 0

    def tell(self, then: _Side, now: _Side, how: How) -> Change | None:
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

    def _compare(self, then: _Side, now: _Side) -> tuple[str, str | None]:
        if self.told >= MOST_CHANGES or self.room <= 0:
            return "", "too much was changed to be shown at once"
        (old, why), (new, why_new) = then.read(), now.read()
        if why or why_new:
            return "", why or why_new
        patch = write_patch(old, new, MOST_LINES)
        self.room -= len(patch)
        return patch, None


def tell_changes(paths: RunPaths, rows: SlotRows, attempt: int, began: Beginnings) -> list[Listing]:
    """Every folder that an attempt kept, with what is in it that its task did not bring."""
    timing, folder, teller = find_timing(rows, attempt), paths.attempt(rows.trial_id, attempt), _Teller()
    told = []
    for name, digest in sorted(timing.folders.items(), key=lambda each: each[0] != WORKSPACE):
        start = began.of(rows.trial.ids.task_id) if name == WORKSPACE else None
        told.append({"folder": name, **_tell_folder(folder / name, digest, start, began, teller)})
    return told


def find_timing(rows: SlotRows, attempt: int) -> AttemptTiming:
    """What is recorded of an attempt. Raises InputError where there was none of that number."""
    for each in rows.timing.attempts:
        if each.attempt == attempt:
            return each
    raise InputError("attempt", f"{rows.trial_id} has no attempt {attempt}")


def list_left(folder: Path, timing: AttemptTiming) -> Iterator[tuple[str, TreeEntry]]:
    """Every file in the folders that an attempt kept, with its path below the attempt's own."""
    for name in timing.folders:
        try:
            entries = list_entries(folder / name)
        except (OSError, TooMany):
            continue  # whoever lists the folder says so
        yield from ((f"{name}/{entry.path}", entry) for entry in entries if entry.kind in FILES)


def _tell_folder(
    folder: Path, digest: str, start: LaidOut | str | None, began: Beginnings, teller: _Teller
) -> Listing:
    try:
        entries = list_entries(folder)
    except FileNotFoundError:
        return {"changes": (), "note": "it is not there any more"}
    except (OSError, TooMany) as error:
        return {"changes": (), "note": f"it can't be listed: {str(error) or 'it holds too much'}"}
    note = None if digest_entries(entries) == digest else "it was changed since it was kept"
    if isinstance(start, LaidOut):
        kept = {each.path: each for each in entries}
        changes = list(_compare(folder, kept, start, began, teller))
        same = len(entries) - sum(change.how != "deleted" for change in changes)
        return {"note": note, "is_compared": True, "same": same, **_cut(changes)}
    if start is not None:
        note = f"what it began with can't be told, so all of it is listed: {start}"
    nothing = _Side(folder=folder, entry=None)
    all_of_it = [teller.tell(nothing, _Side(folder=folder, entry=each), "kept") for each in entries]
    return {"note": note, **_cut([change for change in all_of_it if change is not None])}


def _cut(changes: Sequence[Change]) -> Listing:
    return {"changes": changes[:MOST_CHANGES], "left_out": max(0, len(changes) - MOST_CHANGES)}


def _compare(
    folder: Path, kept: Mapping[str, TreeEntry], start: LaidOut, began: Beginnings, teller: _Teller
) -> Iterator[Change]:
    for path in sorted(kept.keys() | start.entries.keys()):
        now, then = kept.get(path), start.entries.get(path)
        if now and then and (now.kind, now.content) == (then.kind, then.content):
            continue
        how: How = "deleted" if now is None else "added" if then is None else "changed"
        before = _Side(folder=start.folder, entry=then, mask=began.mask)
        change = teller.tell(before, _Side(folder=folder, entry=now), how)
        if change is not None:
            yield change
