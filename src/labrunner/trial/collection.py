"""What is kept of a finished attempt: its files, masked, capped, hashed and synced.

Rule: a file that a completion names by digest is on stable storage, and so is its folder, before the
completion exists. The workspace is not named and not synced.
"""

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from labrunner.errors import InputError, SandboxFailed
from labrunner.experiment.folders import digest_folder
from labrunner.records.completion import FileRef
from labrunner.sandbox.door import AttemptFolders, PhaseName
from labrunner.trial.handedin import Refusal, list_names, read_plain, restore_rights
from labrunner.trial.masking import Masker
from labrunner.trial.removal import remove, remove_tree

RESULT_CAP: Final = 16 * 1024 * 1024
LOG_HEAD: Final = 256 * 1024
LOG_TAIL: Final = 768 * 1024
EVENTS_CAP: Final = 64 * 1024 * 1024
WORKSPACE_CAP: Final = 1024 * 1024 * 1024
"""Larger workspaces go without a digest: reading them would cost more than it tells."""

_EVENTS: Final = "events.jsonl"
_LOGS: Final = frozenset(f"{phase}.{kind}" for phase in get_args(PhaseName) for kind in ("stdout", "stderr"))
_RESULTS: Final = ("result.json", "benchmark_prediction.json", "benchmark_score.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Files of a finished attempt."""

    files: tuple[FileRef, ...]
    logs: tuple[FileRef, ...]
    masked_secrets: int
    workspace_digest: str | None = None
    """Of a workspace that will not be kept; None where nobody can tell what it held."""


def collect(folders: AttemptFolders, masker: Masker, keeps_workspace: bool = True) -> Collected:
    """Keep results and logs of an attempt, throw the rest of its scaffolding away, sync what is named."""
    with SandboxFailed.during("collect", f"collecting what the sandbox left in {folders.root}"):
        keeping = _Keeping(folders=folders, masker=masker)
        files = (*keeping.results(), *keeping.artifacts())
        logs = (*keeping.logs(), *keeping.events())
        for folder in _folders_of(folders.root, (*files, *logs)):
            _sync(folder)
        remove_tree(folders.scratch)
        remove_tree(folders.grader)
        return Collected(
            files=files,
            logs=logs,
            masked_secrets=keeping.masked,
            workspace_digest=None if keeps_workspace else _digest_workspace(folders.workspace),
        )


class _Keeping:
    """One pass over an attempt's files."""

    def __init__(self, *, folders: AttemptFolders, masker: Masker) -> None:
        self._folders = folders
        self._masker = masker
        self.masked = 0

    def results(self) -> Iterable[FileRef]:
        names = list_names(self._folders.out)
        for name in _RESULTS:
            if name in names:
                yield from self._handed_in(self._folders.out, name, RESULT_CAP)

    def artifacts(self) -> Iterable[FileRef]:
        if self._folders.artifacts.is_dir():
            for path in sorted(self._folders.artifacts.rglob("*")):
                if path.is_file():
                    yield self._keep(path.relative_to(self._folders.root).as_posix(), path.read_bytes())

    def logs(self) -> Iterable[FileRef]:
        for name in sorted(list_names(self._folders.logs)):
            path = self._folders.logs / name
            if name not in _LOGS:  # a guest may have been able to write here
                remove(path)
                continue
            size = path.lstat().st_size
            data = _head_and_tail(path) if size else b""
            if data:
                yield self._keep(f"logs/{name}", data, is_whole=len(data) == size)
            else:
                remove(path)

    def events(self) -> Iterable[FileRef]:
        if _EVENTS in list_names(self._folders.state):
            yield from self._handed_in(self._folders.state, _EVENTS, EVENTS_CAP)

    def _handed_in(self, folder: Path, name: str, cap: int) -> Iterable[FileRef]:
        data = read_plain(folder, name, cap=cap)
        if isinstance(data, Refusal):
            remove(folder / name)
        else:
            yield self._keep(f"{folder.name}/{name}", data)

    def _keep(self, name: str, data: bytes, *, is_whole: bool = True) -> FileRef:
        """Make a file durable, as it was read (its whole content, or not) and then masked."""
        path = f"{self._folders.root}/{name}"
        kept, masked = self._masker.mask(data)
        self.masked += masked
        if is_whole and not masked:
            _sync(path)
        else:
            _rewrite_and_sync(path, kept)
        return FileRef(path=name, digest=f"sha256:{hashlib.sha256(kept).hexdigest()}", size=len(kept))


def _digest_workspace(workspace: Path) -> str | None:
    """Digest of what an agent left, whatever that is: files that can't be read have none."""
    try:
        files = (f"{folder}/{name}" for folder, _, names in os.walk(workspace) for name in names)
        size = sum(os.lstat(file).st_size for file in files)
        return digest_folder(workspace, everything=True) if size <= WORKSPACE_CAP else None
    except (OSError, InputError, RecursionError):  # a tree can be deeper than calls may be
        return None


def _folders_of(root: Path, refs: Iterable[FileRef]) -> list[str]:
    """Folders that must be durable for these files to be found: from theirs up to that of all trials."""
    inner = set()
    for ref in refs:
        folder, slash, _ = ref.path.rpartition("/")
        while slash:
            inner.add(folder)
            folder, slash, _ = folder.rpartition("/")
    above = (root, root.parent, root.parent.parent)
    return [*(f"{root}/{folder}" for folder in sorted(inner, reverse=True)), *map(str, above)]


def _head_and_tail(path: Path) -> bytes:
    """Read a log, its middle left out where it is long; nothing of what else a guest put in its place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        size = facts.st_size
        if not stat.S_ISREG(facts.st_mode):
            return b""
        if size <= LOG_HEAD + LOG_TAIL:
            return file.read(LOG_HEAD + LOG_TAIL)
        head = file.read(LOG_HEAD)
        file.seek(size - LOG_TAIL)
        tail = file.read(LOG_TAIL)
    left_out = size - LOG_HEAD - LOG_TAIL
    return head + f"\n[{left_out} bytes left out here]\n".encode() + tail


def _rewrite_and_sync(path: str, data: bytes) -> None:
    """Make the file hold exactly `data`, durably."""
    fd = _open_for_rewriting(path)
    try:
        os.ftruncate(fd, 0)
        written = 0
        while written < len(data):
            written += os.pwrite(fd, data[written:], written)
        os.fsync(fd)
    finally:
        os.close(fd)


def _open_for_rewriting(path: str) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except PermissionError:
        restore_rights(Path(path))
        return os.open(path, flags)


def _sync(path: str) -> None:
    """Make a file or a folder durable as it is."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
