"""A resolved experiment as plain JSON and back, exactly: how a run keeps what it was asked.

Tasks are lines of their own: there may be many, and readers of a run rarely want them all.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from labrunner.experiment.resolved import Experiment, Grader, Setup, TaskSpec
from labrunner.records.encoding import canonical


class _Identified(msgspec.Struct):
    id: str


_task_decoder: Final = msgspec.json.Decoder(TaskSpec)
_id_decoder: Final = msgspec.json.Decoder(_Identified)
_Part = TypeVar("_Part", Grader, Setup)


def to_record(experiment: Experiment) -> dict[str, Any]:
    """Turn an experiment without its tasks into plain JSON."""
    record: dict[str, Any] = msgspec.to_builtins(replace(experiment, tasks=()), str_keys=True)
    del record["tasks"]
    return record


def task_lines(experiment: Experiment) -> Iterator[bytes]:
    """Turn the tasks into canonical lines, in their order."""
    return (canonical.encode_line(task) for task in experiment.tasks)


def from_record(record: Mapping[str, Any], task_lines: Iterable[bytes]) -> Experiment:
    """Turn both back into the experiment that they came from."""
    return msgspec.convert({**record, "tasks": _decode_tasks(task_lines)}, Experiment, str_keys=True)


def read_ids(task_lines: Iterable[bytes]) -> tuple[str, ...]:
    """The tasks' ids, and nothing else of them."""
    return tuple(_id_decoder.decode(line).id for line in task_lines)


def find_task(task_lines: Iterable[bytes], task_id: str) -> TaskSpec | None:
    """The task of an id, the others not decoded."""
    line = next((line for line in task_lines if _id_decoder.decode(line).id == task_id), None)
    return None if line is None else _task_decoder.decode(line)


def _decode_tasks(lines: Iterable[bytes]) -> tuple[TaskSpec, ...]:
    """Decode tasks so that equal graders are one object, as they were: nearly all tasks share theirs."""
    parts: dict[bytes, Any] = {}

    def shared(part: _Part) -> _Part:
        kept: _Part = parts.setdefault(canonical.encode(part), part)
        return kept

    tasks = []
    for line in lines:
        task = _task_decoder.decode(line)
        setup = None if task.setup is None else shared(task.setup)
        tasks.append(replace(task, grader=shared(task.grader), setup=setup))
    return tuple(tasks)
