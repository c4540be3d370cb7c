"""What an attempt left in its folders, held against what its task's workspace began with.

Rule: changes are those of setup, agent and grader together: they share a workspace. Of work in a folder of an
image it is known what was written and removed, not what was there before.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from labrunner.errors import InputError
from labrunner.files.layering.layernote import LAYER
from labrunner.files.strangers.sealing import TreeEntry, digest_entries, list_entries
from labrunner.files.strangers.usage import TooMany
from labrunner.records.completion import AttemptTiming
from labrunner.records.rows import SlotRows
from labrunner.store.layout import RunPaths
from labrunner.view.left.beginning import Beginnings, LaidOut
from labrunner.view.left.changetelling import FILES, MOST_CHANGES, Change, ChangeTeller, How, Side
from labrunner.view.left.layertelling import tell_layer

WORKSPACE: Final = "workspace"
Listing = dict[str, object]


def tell_changes(paths: RunPaths, rows: SlotRows, attempt: int, began: Beginnings) -> list[Listing]:
    """Every folder that an attempt kept, with what is in it that its task did not bring."""
    timing, folder, teller = find_timing(rows, attempt), paths.attempt(rows.trial_id, attempt), ChangeTeller()
    told = []
    for name, digest in sorted(timing.folders.items(), key=lambda each: each[0] != WORKSPACE):
        start = began.of(rows.trial.ids.task_id) if name == WORKSPACE else None
        told.append({"folder": name, **_tell_folder(folder / name, digest, start, began, teller)})
    if any(ref.path == LAYER for ref in timing.logs):
        told.append(tell_layer(folder / LAYER, teller))
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
    folder: Path, digest: str, start: LaidOut | str | None, began: Beginnings, teller: ChangeTeller
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
    nothing = Side(folder=folder, entry=None)
    all_of_it = [teller.tell(nothing, Side(folder=folder, entry=each), "kept") for each in entries]
    return {"note": note, **_cut([change for change in all_of_it if change is not None])}


def _cut(changes: Sequence[Change]) -> Listing:
    return {"changes": changes[:MOST_CHANGES], "left_out": max(0, len(changes) - MOST_CHANGES)}


def _compare(
    folder: Path, kept: Mapping[str, TreeEntry], start: LaidOut, began: Beginnings, teller: ChangeTeller
) -> Iterator[Change]:
    for path in sorted(kept.keys() | start.entries.keys()):
        now, then = kept.get(path), start.entries.get(path)
        if now and then and (now.kind, now.content) == (then.kind, then.content):
            continue
        how: How = "deleted" if now is None else "added" if then is None else "changed"
        before = Side(folder=start.folder, entry=then, mask=began.mask)
        change = teller.tell(before, Side(folder=folder, entry=now), how)
        if change is not None:
            yield change
