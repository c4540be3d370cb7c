"""What is kept of a finished attempt: its files, masked, capped, hashed and synced.

Rule: a file that a completion names by digest is on stable storage, and so is its folder, before the
completion exists. The workspace is not named and not synced.
"""

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from labrunner.errors import InputError, SandboxFailed
from labrunner.experiment.folders import digest_folder
from labrunner.records.completion import FileRef
from labrunner.sandbox.door import AttemptFolders
from labrunner.trial.handedin import Refusal, read_plain, restore_rights
from labrunner.trial.masking import Masker
from labrunner.trial.removal import remove, remove_tree

RESULT_CAP: Final = 16 * 1024 * 1024
LOG_HEAD: Final = 256 * 1024
LOG_TAIL: Final = 768 * 1024
EVENTS_CAP: Final = 64 * 1024 * 1024
WORKSPACE_CAP: Final = 1024 * 1024 * 1024
"""Larger workspaces go without a digest: reading them would cost more than it tells."""

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
        logs = tuple(keeping.logs())
        for folder in _folders_of(folders.root, (*files, *logs)):
            _sync_folder(folder)
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
        for name in _RESULTS:
            data = read_plain(self._folders.out, name, cap=RESULT_CAP)
            if isinstance(data, Refusal):
                if data.reason != "missing":
                    remove(self._folders.out / name)
                continue
            yield self._keep(self._folders.out / name, data)

    def artifacts(self) -> Iterable[FileRef]:
        if self._folders.artifacts.is_dir():
            for path in sorted(self._folders.artifacts.rglob("*")):
                if path.is_file():
                    yield self._keep(path, path.read_bytes())

    def logs(self) -> Iterable[FileRef]:
        for path in sorted(self._folders.logs.iterdir()):
            data = _head_and_tail(path) if path.lstat().st_size else b""
            if not data:
                remove(path)
                continue
            yield self._keep(path, data)
        events = read_plain(self._folders.state, "events.jsonl", cap=EVENTS_CAP)
        if isinstance(events, Refusal):
            if events.reason != "missing":
                remove(self._folders.state / "events.jsonl")
        else:
            yield self._keep(self._folders.state / "events.jsonl", events)

    def _keep(self, path: Path, data: bytes) -> FileRef:
        kept, masked = self._masker.mask(data)
        self.masked += masked
        _rewrite_and_sync(path, kept)
        return FileRef(
            path=str(path.relative_to(self._folders.root)),
            digest=f"sha256:{hashlib.sha256(kept).hexdigest()}",
            size=len(kept),
        )


def _digest_workspace(workspace: Path) -> str | None:
    """Digest of what an agent left, whatever that is: files that can't be read have none."""
    try:
        sizes = sum(path.lstat().st_size for path in workspace.rglob("*"))
        return digest_folder(workspace, everything=True) if sizes <= WORKSPACE_CAP else None
    except (OSError, InputError):
        return None


def _folders_of(root: Path, refs: Iterable[FileRef]) -> list[Path]:
    """Folders that must be durable for these files to be found: from theirs up to that of all trials."""
    inner = {root / folder for ref in refs for folder in PurePosixPath(ref.path).parents}
    return [*sorted(inner, reverse=True), root.parent, root.parent.parent]


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


def _rewrite_and_sync(path: Path, data: bytes) -> None:
    """Make the file hold exactly `data`, durably; what stands there already is only synced."""
    fd = _open_for_rewriting(path)
    try:
        if os.fstat(fd).st_size != len(data) or os.pread(fd, len(data), 0) != data:
            os.ftruncate(fd, 0)
            written = 0
            while written < len(data):
                written += os.pwrite(fd, data[written:], written)
        os.fsync(fd)
    finally:
        os.close(fd)


def _open_for_rewriting(path: Path) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except PermissionError:
        restore_rights(path)
        return os.open(path, flags)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
