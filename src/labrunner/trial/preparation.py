"""Laying out an attempt's folders before its sandbox is opened, and the grader's at the barrier."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.experiment.resolved import Folder, TaskSpec, WorkspaceFile
from labrunner.files.descriptors import write_file
from labrunner.files.strangers.hostile import list_names, restore_rights
from labrunner.files.strangers.removal import remove
from labrunner.records.encoding import canonical
from labrunner.sandbox.door import AttemptFolders
from labrunner.trial.assignment import AttemptScene

_VERDICTS: Final = frozenset({"benchmark_prediction.json", "benchmark_score.json"})


def lay_out(scene: AttemptScene) -> Path | None:
    """Make the attempt's folders with everything the agent may know and work on.

    Where a cut-off try of the same number left some, says where they lie now.
    """
    with SandboxFailed.during("prepare", f"preparing {scene.folders.root}"):
        aside = set_aside(scene.folders.root)
        scene.folders.root.mkdir(parents=True)
        for folder in scene.folders.all():
            folder.mkdir()
        _write_inputs(scene)
        fill_workspace(scene.task, scene.folders.workspace)
        return aside


def lay_out_again(folders: AttemptFolders) -> None:
    """Make what a grader's sandbox needs: a runner that died while collecting has removed some of it."""
    with SandboxFailed.during("prepare", f"preparing {folders.root} for its grader"):
        for folder in folders.all():
            folder.mkdir(parents=True, exist_ok=True)


def write_policy(folders: AttemptFolders, policy: object) -> None:
    """Tell the agent what it is held to: known only once its sandbox is there."""
    with SandboxFailed.during("prepare", f"preparing {folders.root}"):
        write_file(f"{folders.inputs}/policy.json", canonical.encode_line(policy), is_synced=False)


def set_aside(attempt: Path) -> Path | None:
    """Move what a cut-off try of the same number left out of the way; it stays as evidence."""
    if not attempt.exists():
        return None
    cut = 1
    while (aside := attempt.with_name(f"{attempt.name}.cut-{cut}")).exists():
        cut += 1
    attempt.rename(aside)
    return aside


def bring_grader(task: TaskSpec, folders: AttemptFolders) -> None:
    """Put the grader's files and the hidden answer in place. Only behind the barrier."""
    with SandboxFailed.during("bring_grader", f"putting the grader's files into {folders.grader}"):
        if task.grader.dir is not None:
            _copy_tree(Path(task.grader.dir.path), folders.grader)
        if task.has_target:
            target = canonical.encode_line(task.target)
            write_file(f"{folders.grader}/target.json", target, is_synced=False)


def clear_verdicts(folders: AttemptFolders) -> None:
    """Remove whatever lies where a grader will write, and let it write: planted verdicts do nothing."""
    with SandboxFailed.during("out_replaced", f"clearing the grader's output paths in {folders.out}"):
        for folder in (folders.out, folders.workspace, folders.state):
            _give_back_rights(folder)
        for name in _VERDICTS.intersection(list_names(folders.out)):
            remove(folders.out / name)


def _give_back_rights(folder: Path) -> None:
    """Undo what an agent may have done so that its grader fails: an error would be a free second try."""
    with suppress(FileNotFoundError):
        facts = folder.lstat()
        if facts.st_mode & 0o700 != 0o700 and os.geteuid() in {0, facts.st_uid}:
            restore_rights(folder)


def _write_inputs(scene: AttemptScene) -> None:
    inputs, task = scene.folders.inputs, scene.task
    asked = {"id": task.id, "input": task.input}
    write_file(f"{inputs}/task.json", canonical.encode_line(asked), is_synced=False)
    bindings = dict(scene.variant.bindings)
    write_file(f"{inputs}/bindings.json", canonical.encode_line(bindings), is_synced=False)
    if task.prompt is not None:
        write_file(f"{inputs}/prompt.txt", task.prompt.encode(), is_synced=False)


def fill_workspace(task: TaskSpec, workspace: Path) -> None:
    """Put into an empty folder what a task's workspace starts with."""
    if task.workspace is not None:
        unpack(task.workspace, workspace)
    for file in task.files:
        _put_file(file, workspace)


def unpack(source: Folder, into: Path) -> None:
    """Copy a folder, or unpack an archive, into an existing folder."""
    path = Path(source.path)
    if path.is_dir():
        _copy_tree(path, into)
    elif path.suffix == ".zip":
        import zipfile

        with zipfile.ZipFile(path) as archive:
            archive.extractall(into)
    else:
        import tarfile  # here, because few workspaces are archives and every command would wait for it

        with tarfile.open(path) as archive:
            archive.extractall(into, filter="data")


def _put_file(file: WorkspaceFile, workspace: Path) -> None:
    target = workspace / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.source is None:
        target.write_text(file.content or "", encoding="utf-8")
    elif (source := Path(file.source.path)).is_dir():
        _copy_tree(source, target)
    else:
        shutil.copy(source, target)


def _copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file)


def _copy_file(source: str, target: str) -> None:
    # Given a name here: an error that copytree itself collects has lost its number, and a full disk is one.
    with SandboxFailed.during("prepare", f"copying {source} to {target}"):
        shutil.copy2(source, target)
