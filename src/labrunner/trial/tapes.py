"""Where the recorded calls lie that answer an attempt's: `--replay`.

Rules: of the run that is replayed, the attempt that its trial ended with. Where answers are reused, what an
attempt of the same number in this run said before it was cut off comes first.
"""

from collections.abc import Iterator
from pathlib import Path

from labrunner.trial.assignment import Assignment, AttemptScene


def find_tapes(scene: AttemptScene) -> Iterator[Path]:
    """Folders of attempts, the preferred one first; none where nothing is replayed."""
    policy, trial_id = scene.context.experiment.policy, scene.assignment.trial_id
    if policy.replay is None:
        return
    if scene.context.tapes is not None:
        yield from list_delivered(find_delivery(scene.context.tapes, scene.assignment))
        return
    if policy.replay_mode == "reuse":
        yield from _find_cut_off(scene.folders.root)
    recorded = Path(policy.replay) / "trials"
    if not _is_same(recorded, scene.context.trials_dir):
        numbers = [int(name) for name in _list_names(recorded / trial_id) if name.isdecimal()]
        if numbers:
            yield recorded / trial_id / str(max(numbers))


def find_waiting_tapes(scene: AttemptScene) -> Iterator[Path]:
    """The same before the attempt's folder is laid out: the last that was cut off lies in its place still."""
    if scene.context.experiment.policy.replay_mode == "reuse" and scene.folders.root.is_dir():
        yield scene.folders.root
    yield from find_tapes(scene)


def find_delivery(tapes: Path, assignment: Assignment) -> Path:
    """Where the tapes of one attempt are delivered to."""
    return tapes / assignment.trial_id / str(assignment.attempt)


def list_delivered(folder: Path) -> list[Path]:
    """Tapes that were delivered: folders that are numbered in the order in which they are preferred."""
    return [folder / name for name in sorted(_list_names(folder), key=int)]


def _find_cut_off(attempt: Path) -> list[Path]:
    start = f"{attempt.name}.cut-"
    cuts = [int(name.removeprefix(start)) for name in _list_names(attempt.parent) if name.startswith(start)]
    return [attempt.with_name(f"{start}{number}") for number in sorted(cuts, reverse=True)]


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _list_names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()] if folder.is_dir() else []
