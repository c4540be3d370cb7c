"""What is kept of a finished attempt: its files, masked, capped, hashed and synced.

Rules: everything that stays is searched for secrets; whatever a completion names by digest, a file or a
folder, is on stable storage, and so is the way to it, before the completion exists. A workspace that policy
throws away after the commit has a digest and nothing else.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args

from labrunner.errors import SandboxFailed
from labrunner.experiment.run_policy import Keep
from labrunner.files.descriptors import rewrite, sync, sync_path
from labrunner.files.layering.layernote import LAYER, PATCH_FILE
from labrunner.files.strangers.hostile import Refusal, list_names, open_plain, read_plain, restore_rights
from labrunner.files.strangers.masking import Masker
from labrunner.files.strangers.removal import remove, remove_tree
from labrunner.files.strangers.sealing import digest_tree, settle_tree
from labrunner.records.completion import AttemptEnd, FileRef, Graded
from labrunner.sandbox.door import AttemptFolders, PhaseName
from labrunner.trial.collecting.recorded_calls import keep_recorded
from labrunner.trial.collecting.redaction import Redactor, redact_layer

RESULT_CAP: Final = 16 * 1024 * 1024
LOG_HEAD: Final = 256 * 1024
LOG_TAIL: Final = 768 * 1024
EVENTS_CAP: Final = 64 * 1024 * 1024
PATCH_CAP: Final = 64 * 1024 * 1024

_EVENTS: Final = "events.jsonl"
_LOGS: Final = frozenset(f"{phase}.{kind}" for phase in get_args(PhaseName) for kind in ("stdout", "stderr"))
_RESULTS: Final = ("result.json", "benchmark_prediction.json", "benchmark_score.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Files of a finished attempt."""

    files: tuple[FileRef, ...] = ()
    logs: tuple[FileRef, ...] = ()
    masked_secrets: int = 0
    masked: Mapping[str, int] = field(default_factory=dict)
    """Secrets that were masked, by file."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Files that were not kept, each with the reason."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Digests of folders that are kept, synced, and hold more than named files."""
    workspace_digest: str | None = None
    """As it is kept, or as the agent left it; None where nobody can tell what it held."""


def collect(folders: AttemptFolders, masker: Masker, keeps_workspace: bool = True) -> Collected:
    """Keep what an attempt left, throw the rest of its scaffolding away, sync what is named."""
    with SandboxFailed.during("collect", f"collecting what the sandbox left in {folders.root}"):
        keeping = _Keeping(folders=folders, masker=masker)
        results, logs = tuple(keeping.results()), (*keeping.logs(), *keeping.events(), *keeping.calls())
        files = (*results, *keeping.patch(), *keeping.artifacts())
        inner = dict(keeping.rest())
        workspace_digest = keeping.workspace(is_kept=keeps_workspace)
        if keeps_workspace and workspace_digest is not None:
            inner[folders.workspace.name] = workspace_digest
        logs = (*logs, *keeping.layer(is_kept=keeps_workspace))
        for folder in _folders_of(folders.root, (*files, *logs)):
            sync_path(folder)
        remove_tree(folders.scratch)
        remove_tree(folders.grader)
        found = keeping.redactor
        return Collected(
            files=files,
            logs=logs,
            masked_secrets=found.count,
            masked=found.masked,
            dropped=found.dropped,
            folders=inner,
            workspace_digest=workspace_digest,
        )


def keeps_workspace(keep: Keep, end: AttemptEnd) -> bool:
    """Whether what the agent left stays; of an attempt that is tried again it does in any case."""
    if not isinstance(end, Graded):
        return True
    return keep == "always" or (keep == "failed" and end.verdict != "pass")


class _Keeping:
    """One pass over an attempt's files."""

    def __init__(self, *, folders: AttemptFolders, masker: Masker) -> None:
        self._folders = folders
        self._masker = masker
        self.redactor = Redactor(masker)

    def results(self) -> Iterable[FileRef]:
        names = list_names(self._folders.out)
        for name in _RESULTS:
            if name in names:
                yield from self._handed_in(self._folders.out, name, RESULT_CAP)

    def artifacts(self) -> Iterable[FileRef]:
        if self._folders.artifacts.is_dir():
            self.redactor.redact(self._folders.artifacts, "artifacts")
            for path in sorted(self._folders.artifacts.rglob("*")):
                if path.is_file():
                    yield _keep_as_is(path, path.relative_to(self._folders.root).as_posix())

    def logs(self) -> Iterable[FileRef]:
        for name in sorted(list_names(self._folders.logs)):
            path = self._folders.logs / name
            if name not in _LOGS:  # a guest may have been able to write here
                remove(path)
                continue
            size = path.lstat().st_size
            data = _head_and_tail(path, self._masker) if size else b""
            if data:
                yield self._keep(f"logs/{name}", data, is_whole=len(data) == size)
            else:
                remove(path)

    def events(self) -> Iterable[FileRef]:
        if _EVENTS in list_names(self._folders.state):
            yield from self._handed_in(self._folders.state, _EVENTS, EVENTS_CAP)

    def calls(self) -> Iterable[FileRef]:
        return keep_recorded(self._folders.root, self._masker, self.redactor)

    def rest(self) -> Iterable[tuple[str, str]]:
        """Whatever else was handed in: a digest for each folder that holds more than is named."""
        for folder, named in ((self._folders.out, _RESULTS), (self._folders.state, (_EVENTS,))):
            if set(list_names(folder)).difference(named):
                self.redactor.redact(folder, folder.name)
                settle_tree(folder)
                digest = digest_tree(folder)
                if digest is not None:
                    yield folder.name, digest

    def workspace(self, *, is_kept: bool) -> str | None:
        """Make a workspace that is kept fit for it; what it holds, as a digest."""
        workspace = self._folders.workspace
        if is_kept:
            self.redactor.redact(workspace, workspace.name)
            for folder in (workspace, self._folders.inputs):  # what a grader needs that is asked again
                if folder.is_dir() and not folder.is_symlink():
                    settle_tree(folder)
        return digest_tree(workspace)

    def layer(self, *, is_kept: bool) -> Iterable[FileRef]:
        """Work in a folder of the image, synced when it was taken; without secrets where it is kept."""
        path = self._folders.root / LAYER
        if not is_kept or not path.is_file():
            return
        if self._masker.needles and (problem := redact_layer(path, self._masker, self.redactor)):
            remove(path)
            self.redactor.note_dropped(LAYER, problem)
            return
        yield _keep_as_is(path, LAYER)

    def patch(self) -> Iterable[FileRef]:
        """What was changed in a git work tree of the image, which we wrote ourselves."""
        data = read_plain(self._folders.root, PATCH_FILE, cap=PATCH_CAP)
        if isinstance(data, bytes):
            yield self._keep(PATCH_FILE, data)

    def _handed_in(self, folder: Path, name: str, cap: int) -> Iterable[FileRef]:
        data = read_plain(folder, name, cap=cap)
        if isinstance(data, Refusal):
            remove(folder / name)
            self.redactor.note_dropped(f"{folder.name}/{name}", data.message)
        else:
            yield self._keep(f"{folder.name}/{name}", data)

    def _keep(self, name: str, data: bytes, *, is_whole: bool = True) -> FileRef:
        """Make a file durable, as it was read (its whole content, or not) and then masked."""
        path = f"{self._folders.root}/{name}"
        kept, masked = self._masker.mask_document(data) if name.endswith(".json") else self._masker.mask(data)
        self.redactor.note_masked(name, masked)
        if is_whole and not masked:
            sync_path(path)
        else:
            _rewrite(path, kept)
        return FileRef(path=name, digest=f"sha256:{hashlib.sha256(kept).hexdigest()}", size=len(kept))


def _keep_as_is(path: Path, name: str) -> FileRef:
    """Make a file of our own making durable."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        sync(file.fileno())
        return FileRef(path=name, digest=f"sha256:{digest}", size=file.tell())


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


def _head_and_tail(path: Path, masker: Masker) -> bytes:
    """Read a log, its middle left out where it is long; nothing of what else a guest put in its place."""
    try:
        found = open_plain(path)
    except OSError:
        return b""
    with found as file:
        fd, size = file.fileno(), os.fstat(file.fileno()).st_size
        if size <= LOG_HEAD + LOG_TAIL:
            return file.read(LOG_HEAD + LOG_TAIL)
        head_end = _step_aside(fd, LOG_HEAD, masker)[0]
        tail_start = _step_aside(fd, size - LOG_TAIL, masker)[1]
        head = os.pread(fd, head_end, 0)
        tail = os.pread(fd, size - tail_start, tail_start)
    left_out = tail_start - head_end
    return head + f"\n[{left_out} bytes left out here]\n".encode() + tail


def _step_aside(fd: int, cut: int, masker: Masker) -> tuple[int, int]:
    start = max(0, cut - masker.longest)
    before, after = masker.step_aside(os.pread(fd, 2 * masker.longest, start), cut - start)
    return start + before, start + after


def _rewrite(path: str, data: bytes) -> None:
    """Make the file hold exactly `data`, durably."""
    fd = _open_for_rewriting(path)
    try:
        rewrite(fd, data)
    finally:
        os.close(fd)


def _open_for_rewriting(path: str) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except PermissionError:
        restore_rights(Path(path))
        return os.open(path, flags)
