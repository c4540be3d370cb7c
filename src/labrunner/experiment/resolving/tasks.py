"""The tasks of an experiment: read, checked, chosen, resolved."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from labrunner.experiment.authoring.authored import GraderPart, SetupPart, TaskSource
from labrunner.experiment.authoring.document import FieldPath
from labrunner.experiment.authoring.problems import field_names, validate
from labrunner.experiment.authoring.section import Section, Spot
from labrunner.experiment.authoring.task_row import TaskRow
from labrunner.experiment.authoring.values import HALF_A_CHARACTER, FileSource
from labrunner.experiment.digests import digest_task
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import (
    Folder,
    Grader,
    Network,
    Resources,
    Setup,
    Solution,
    TaskAgent,
    TaskSpec,
    WorkspaceFile,
)
from labrunner.experiment.resolving.gathering import Reading
from labrunner.experiment.resolving.naming import (
    Names,
    fill_all,
    fill_env,
    fill_path,
    grader_names,
    solution_names,
    task_names,
)
from labrunner.experiment.resolving.parts import (
    host_network,
    resolve_context,
    resolve_grader,
    resolve_setup,
)
from labrunner.experiment.resolving.selection import FilterNames, TaskFilter, select_tasks
from labrunner.experiment.sandbox_kinds import KINDS
from labrunner.experiment.sources.registry import read_rows
from labrunner.experiment.sources.task_rows import Row, SourceRequest, inline_rows
from labrunner.records.encoding import canonical

SOLVE: Final = "solve.sh"
"""What a folder with a solution is started by."""
_NO_LIMITS: Final = Resources()
"""Of tasks that have none of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTask:
    """A task as it was written, and where."""

    row: TaskRow
    spot: Spot

    @property
    def id(self) -> str:
        """Its name."""
        return self.row.id

    @property
    def tags(self) -> Sequence[str]:
        """Its tags."""
        return self.row.tags


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRules:
    """What holds for all tasks of an experiment: its grader, and what may be named."""

    bound: Collection[str]
    """Names of the variants' bindings."""
    names: Names
    """For what a task brings for setup, agent and grader alike."""
    grader_names: Names
    kinds: frozenset[str]
    """Of the variants' sandboxes: a task runs in all of them."""
    open_kinds: frozenset[str]
    """Those of them that isolate no network."""
    grader: Grader | None
    """The experiment's own; None when every task brings one of its own."""


def written_tasks(reading: Reading) -> Sequence[WrittenTask]:
    """Read and check all tasks, and choose those that are to be run."""
    problems, source = reading.problems, reading.file.tasks
    tasks = _check_rows(_rows(reading), reading)
    where = reading.document.where
    if not tasks and not len(problems):
        problems.add(where(("tasks",)), "holds no task; one row a task, with id and input")
    if isinstance(source, TaskSource):
        choice = TaskFilter(
            include=source.include, exclude=source.exclude, tags=source.tags, limit=source.limit
        )
        names = FilterNames(
            include=where(("tasks", "include")),
            exclude=where(("tasks", "exclude")),
            tags=where(("tasks", "tags")),
        )
        tasks = select_tasks(tasks, choice, names, problems)
    asked = reading.overrides
    if asked.limit is not None and asked.limit < 1:
        problems.add(flag("limit"), f"must be at least 1, found {asked.limit}")
    choice = TaskFilter(include=asked.task_ids, tags=asked.tags, limit=asked.limit)
    names = FilterNames(include=flag("sample_id"), exclude="", tags=flag("tag"))
    taken = select_tasks(tasks, choice, names, problems)
    return _without_refused(taken, reading)


def _without_refused(taken: Sequence[WrittenTask], reading: Reading) -> Sequence[WrittenTask]:
    """Say why tasks can't be run here, and leave them out: of what was not read nothing else can be said."""
    asked = [task.id for task in taken if task.id in reading.document.refused]
    for task in asked:
        for reason in reading.document.refused[task]:
            reading.problems.take(reason)
    if asked:
        told = f"{len(asked)} of {len(taken)} tasks can't be run here as they are written"
        remedy = f"`lab doctor` lists why; {flag('sample_id')} chooses others"
        reading.problems.add(reading.document.where(()), f"{told}: {remedy}")
    return [task for task in taken if task.id not in reading.document.refused]


def make_rules(
    tasks: Sequence[WrittenTask], bound: Collection[str], kinds: frozenset[str], reading: Reading
) -> TaskRules:
    """Resolve the experiment's own grader, where a task needs it."""
    rules = TaskRules(
        bound=bound,
        names=task_names(bound),
        grader_names=grader_names(bound),
        kinds=kinds,
        open_kinds=frozenset(kind for kind in kinds if not KINDS.find(kind, "sandbox").isolates_network),
        grader=None,
    )
    if tasks and all(task.row.grader is not None for task in tasks):
        return rules
    section = Section.of(reading.file.grader, reading.document, "grader")
    return replace(rules, grader=_grader(section, rules, reading))


def resolve_task(task: WrittenTask, rules: TaskRules, reading: Reading) -> TaskSpec:
    """Resolve one task."""
    row, spot, problems = task.row, task.spot, reading.problems
    names = rules.names
    resolved = TaskSpec(
        id=row.id,
        input=row.input if "input" in row.model_fields_set else row.prompt,
        prompt=row.text(),
        target=row.target,
        has_target=row.has_target,
        solution=_solution(row, rules.bound, spot.at("solution"), reading),
        image=None if row.image is None else fill_path(row.image, {}, spot.at("image"), problems),
        workdir=row.workdir,
        workspace=_workspace(row, spot.at("workspace"), reading),
        files=_files(row, spot.at("files"), reading),
        setup=_own_setup(task, names, rules, reading),
        timeout_s=row.timeout_s,
        grader=_own_grader(task, rules, reading),
        group=row.group,
        tags=tuple(row.tags),
        env=fill_env(row.env, names, spot.at("env"), problems),
        metadata=row.metadata,
        resources=Resources(**row.resources.model_dump()) if row.resources.model_fields_set else _NO_LIMITS,
        digest="",
        build=resolve_context(row.build, {}, spot.at("build"), reading),
        build_timeout_s=row.build_timeout_s,
        agent=TaskAgent(user=row.agent.user, network=row.agent.network) if row.agent else None,
        collect=tuple(row.collect),
    )
    return replace(resolved, digest=digest_task(resolved))


def task_file(reading: Reading) -> tuple[Path, FieldPath]:
    """Give the file that the tasks stand in, and the field that says so."""
    source, document = reading.file.tasks, reading.document
    if not isinstance(source, TaskSource):
        return Path(document.place(("tasks",)).file), ("tasks",)
    field: FieldPath = ("tasks", "file") if isinstance(document.data["tasks"], dict) else ("tasks",)
    return document.folder(field) / source.file, field


def _rows(reading: Reading) -> Iterable[Row]:
    _, field = task_file(reading)
    source, document = reading.file.tasks, reading.document
    if not isinstance(source, TaskSource):
        return inline_rows(source, document, field)
    request = SourceRequest(
        text=source.file,
        folder=document.folder(field),
        where=document.where(field),
        known=field_names(TaskRow),
        names=source.fields,
        problems=reading.problems,
    )
    return read_rows(request)


def _check_rows(rows: Iterable[Row], reading: Reading) -> Sequence[WrittenTask]:
    tasks: list[WrittenTask] = []
    first: dict[str, Spot] = {}
    problems, refused = reading.problems, reading.document.refused
    for row in rows:
        # One that can't be run keeps its place, so that it can be left out; who asks for it is told why.
        is_refused = bool(refused) and isinstance(row.data, dict) and row.data.get("id") in refused
        data = {**row.data, "prompt": ""} if is_refused else row.data
        checked = validate(TaskRow, data, row.origin.where, problems)
        if checked is None:
            continue
        spot = Spot(origin=row.origin, path=())
        if unwritable := list(_unwritable(row.data)):
            for name in unwritable:
                problems.add(spot.at(name).where, HALF_A_CHARACTER)
            continue
        if checked.id in first:
            other = first[checked.id].at("id").where
            problems.add(
                spot.at("id").where, f"there is another task '{checked.id}' ({other}); ids must differ"
            )
        first.setdefault(checked.id, spot)
        tasks.append(WrittenTask(row=checked, spot=spot))
    return tasks


def _unwritable(written: dict[str, Any]) -> Iterator[str]:
    """Fields with text that JSON can hold and UTF-8 can't."""
    try:
        canonical.encode(written)
    except UnicodeEncodeError:
        pass
    else:
        return
    for name, value in written.items():
        try:
            canonical.encode(value)
        except UnicodeEncodeError:
            yield name


def _grader(section: Section[GraderPart], rules: TaskRules, reading: Reading) -> Grader:
    grader = resolve_grader(section, rules.grader_names, reading)
    return replace(grader, network=_network(section, rules, reading))


def _own_grader(task: WrittenTask, rules: TaskRules, reading: Reading) -> Grader:
    if task.row.grader is None and rules.grader is not None:
        return rules.grader
    base = Section.of(reading.file.grader, reading.document, "grader")
    return _grader(base.over(task.row.grader, task.spot.at("grader")), rules, reading)


def _own_setup(task: WrittenTask, names: Names, rules: TaskRules, reading: Reading) -> Setup | None:
    if task.row.setup is None:
        return None
    base = Section.of(reading.file.setup, reading.document, "setup")
    section = base.over(task.row.setup, task.spot.at("setup"))
    setup = resolve_setup(section, names, reading.problems)
    return replace(setup, network=_network(section, rules, reading))


def _network(
    section: Section[GraderPart] | Section[SetupPart], rules: TaskRules, reading: Reading
) -> Network:
    """Give a task's network; one that some variant's sandbox can't keep is refused."""
    if not rules.open_kinds:
        return section.part.network
    of_host = host_network(section, min(rules.open_kinds), reading.problems)
    return of_host if rules.open_kinds == rules.kinds else section.part.network


def _workspace(row: TaskRow, spot: Spot, reading: Reading) -> Folder | None:
    if row.workspace is None:
        return None
    return reading.folder(reading.contents.workspace, row.workspace, spot)


def _files(row: TaskRow, spot: Spot, reading: Reading) -> tuple[WorkspaceFile, ...]:
    files = []
    for path, content in sorted(row.files.items()):
        if isinstance(content, FileSource):
            source = reading.folder(reading.contents.source, content.source, spot.at(path))
            files.append(WorkspaceFile(path=path, content=None, source=source))
        else:
            files.append(WorkspaceFile(path=path, content=content, source=None))
    return tuple(files)


def _solution(row: TaskRow, bound: Collection[str], spot: Spot, reading: Reading) -> Solution | None:
    part, folder = row.solution, None
    if part is None:
        return None
    if part.dir is not None:
        folder = reading.folder(reading.contents.tools, part.dir, spot.at("dir"))
        if folder is None:
            return None
    names = solution_names(bound, has_dir=folder is not None)
    command = fill_all(part.command, names, spot.at("command"), reading.problems)
    if not command and folder is not None:
        command = _script_of(folder, spot, reading)
    return Solution(
        command=command,
        dir=None if folder is None else folder.path,
        digest=None if folder is None else folder.digest,
        env=fill_env(part.env, names, spot.at("env"), reading.problems),
    )


def _script_of(folder: Folder, spot: Spot, reading: Reading) -> tuple[str, ...]:
    """What starts a folder's script: itself, where it is a program, else a shell."""
    script = Path(folder.path) / SOLVE
    if not script.is_file():
        told = f"'{folder.path}' has no {SOLVE}; say what solves the task: {{dir: …, command: …}}"
        reading.problems.add(spot.at("dir").where, told)
    inside = f"${{agent_dir}}/{SOLVE}"
    return (inside,) if os.access(script, os.X_OK) else ("sh", inside)
