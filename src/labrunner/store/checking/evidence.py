"""Files and folders that rows name by digest: whether they are still there, whole and unchanged."""

import hashlib
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from labrunner.files.durable import say
from labrunner.files.layering.layernote import LAYER
from labrunner.files.strangers.sealing import digest_tree
from labrunner.records.completion import FileRef
from labrunner.records.rows import TimingRow, TrialRow
from labrunner.store.layout import RunPaths


def check_evidence(
    paths: RunPaths, trial: TrialRow, timing: TimingRow, *, are_logs_kept: bool
) -> Iterator[tuple[Path, str]]:
    """Give a sentence for each file that is not what its row says.

    Logs of phases may be gone where policy drops them, and workspaces wherever somebody does; transcripts,
    calls and events always stay.
    """
    folder = paths.attempt(trial.ids.trial_id, trial.attempt)
    for ref in trial.files:
        yield from _check(folder, ref, may_be_gone=False)
    for attempt in timing.attempts:
        folder = paths.attempt(trial.ids.trial_id, attempt.attempt)
        for ref in attempt.logs:
            is_log = not are_logs_kept and ref.path.startswith("logs/")
            yield from _check(folder, ref, may_be_gone=is_log or ref.path == LAYER)
        for name, digest in attempt.folders.items():
            yield from _check_folder(folder / name, digest, may_be_gone=name == "workspace")


def _check_folder(folder: Path, digest: str, *, may_be_gone: bool) -> Iterator[tuple[Path, str]]:
    if not folder.is_dir():
        if not may_be_gone or folder.is_symlink() or folder.exists():
            yield folder, "the folder is gone"
    elif digest_tree(folder) != digest:
        yield folder, "does not hold what was kept: a power cut, or somebody, has changed it since"


def _check(folder: Path, ref: FileRef, *, may_be_gone: bool) -> Iterator[tuple[Path, str]]:
    path = folder / ref.path
    parts = PurePosixPath(ref.path)
    if parts.is_absolute() or ".." in parts.parts:
        yield path, f"the row names {ref.path!r}, which leads out of the attempt's folder"
        return
    try:
        problem = _compare(path, ref)
    except FileNotFoundError:
        problem = None if may_be_gone else "the file is gone"
    except OSError as error:
        problem = f"can't be read: {say(error)}"
    if problem is not None:
        yield path, problem


def _compare(path: Path, ref: FileRef) -> str | None:
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode):
        return "not a plain file"
    size = facts.st_size
    if size != ref.size:
        return f"{size} bytes, but its row says {ref.size}"
    with path.open("rb") as file:
        found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    return None if found == ref.digest else f"its digest is {found}, but its row says {ref.digest}"
