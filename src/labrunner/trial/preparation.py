"""Laying out an attempt's folders before its sandbox is opened, and the grader's at the barrier."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.experiment.resolved import TaskSpec, WorkspaceFile
from labrunner.files.descriptors import write_file
from labrunner.files.strangers.hostile import list_names, restore_rights
from labrunner.files.strangers.placing import copy_over, find_place, unpack
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
            copy_over(Path(task.grader.dir.path), folders.grader)
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


def fill_workspace(task: TaskSpec, workspace: Path, most: int | None = None) -> None:
    """Put into an empty folder what a task's workspace starts with; of an archive, `most` bytes.

    Raises Misplaced for what would lie elsewhere, and whatever its sources do.
    """
    if task.workspace is not None:
        source = Path(task.workspace.path)
        if source.is_dir():
            copy_over(source, workspace)
        else:
            unpack(source, workspace, most)
    for file in task.files:
        _put_file(file, workspace)


def _put_file(file: WorkspaceFile, workspace: Path) -> None:
    target = find_place(workspace, file.path)
    if file.source is None:
        target.write_text(file.content or "", encoding="utf-8")
    elif (source := Path(file.source.path)).is_dir():
        copy_over(source, target)
    else:
        shutil.copy(source, find_place(target, source.name) if target.is_dir() else target)
