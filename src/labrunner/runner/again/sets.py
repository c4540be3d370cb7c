"""Running several experiments into one directory until all have succeeded.

Rules: called again, it goes on where it was: an experiment whose newest run succeeded is done, one that
crashed or was stopped is retried with everything that was finished taken over. Crashed runs stay for the
post-mortem. An experiment is recognised by its name, not by where its file lies, and a Python task also by
its model, its settings and the arguments that it was made with; where its content has changed since, what
the change touches is run again. A run that has used up its budget is not tried again.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from labrunner.errors import ExitCode, InputError
from labrunner.experiment import codec
from labrunner.experiment.resolved import Experiment
from labrunner.policy import backoff
from labrunner.records.encoding import canonical
from labrunner.runner.again.retrying import RetryPlan, carry_out_retry, changes_since, lineage
from labrunner.runner.resume.draining import drain
from labrunner.runner.reuse.reuse import open_sources, plan_reuse
from labrunner.runner.sitting.sitting import RunEnd, Watch
from labrunner.runner.sitting.stopping import StopRequest, signals_stop
from labrunner.runner.start import RunOptions, run_experiment
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import list_runs
from labrunner.store.rows.single_records import read_run

LONGEST_WAIT_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOptions:
    """How often and how soon failed experiments are tried again."""

    attempts: int = 10
    """How often each is tried at most; 0 is once, as 1 is."""
    wait_s: float = 30.0
    reuse_edited: bool = False
    """Whether results of code that was edited since are taken over: somebody vouches for the edits."""
    on_wait: Callable[[float], None] = lambda _: None
    """Told before each wait how long it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One experiment of a set, and how it stands."""

    experiment: Experiment
    state: Literal["done", "open"]
    newest: RunPaths | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEnd:
    """How a set ended."""

    ends: tuple[RunEnd, ...]
    """The last sitting of each experiment that was run."""
    done_before: tuple[RunPaths, ...]
    newest: tuple[tuple[Experiment, RunPaths], ...]
    """What was run or done before, each with its newest run, in the order in which they were given."""
    exit_code: ExitCode


def look_at(experiment: Experiment, runs_dir: Path) -> Member:
    """How an experiment stands in a directory."""
    identity = _identify(codec.to_record(experiment))
    mine = [
        run
        for run in list_runs(runs_dir)
        if run.state != "unreadable"
        and run.name == experiment.name
        and not run.is_regrade
        and _identify(read_run(run.paths).experiment) == identity
    ]
    newest = mine[0] if mine else None
    is_done = (
        newest is not None
        and newest.state == "success"
        and read_run(newest.paths).digests.experiment == experiment.digest
    )
    return Member(
        experiment=experiment, state="done" if is_done else "open", newest=newest.paths if newest else None
    )


async def run_set(
    experiments: Sequence[Experiment],
    options: Callable[[Experiment], RunOptions],
    set_options: SetOptions,
    watch: Watch,
    *,
    on_plan: Callable[[RetryPlan], None],
) -> SetEnd:
    """Run experiments until all have succeeded or their attempts are used up.

    `options` says how each of them is carried out.
    """
    refuse_doubles(experiments)
    members = [look_at(experiment, options(experiment).runs_dir) for experiment in experiments]
    ends: dict[int, RunEnd] = {}
    for attempt in range(1, max(1, set_options.attempts) + 1):
        owed = [n for n, member in enumerate(members) if _is_owed(member, ends.get(n))]
        if not owed:
            break
        if attempt > 1 and await _is_stopped_within(_wait_s(attempt, set_options), set_options):
            return _conclude_early(members, ends)
        for number in owed:
            how = options(experiments[number])
            ends[number] = await _run_member(members[number], how, set_options, watch, on_plan)
            members[number] = replace(members[number], newest=ends[number].paths)
            if ends[number].is_interrupted:
                return _conclude_early(members, ends)
    return _conclude(members, ends)


def refuse_doubles(experiments: Sequence[Experiment]) -> None:
    """Refuse two experiments of which nobody could tell which run belongs to which."""
    seen: dict[str, Experiment] = {}
    for experiment in experiments:
        identity = _identify(codec.to_record(experiment))
        if identity in seen:
            raise InputError(experiment.source or f"task {experiment.name}", _describe_double(seen[identity]))
        seen[identity] = experiment


def _describe_double(first: Experiment) -> str:
    program = first.variants[0].program
    if program is None:
        return f"has the same name as {first.source}, {first.name!r}; give it another"
    return f"is the same task, with the same model and arguments, as another of {first.name!r}; name it anew"


def _identify(record: Mapping[str, Any]) -> str:
    """What makes two recorded experiments members of one row: a name, and for Python what it is made with."""
    program = record["variants"][0].get("program")
    if program is None:
        return canonical.digest(["file", record["name"]])
    made_with = {name: program.get(name) for name in ("task", "model", "arguments", "config")}
    return canonical.digest(["python", record["name"], made_with])


async def _run_member(
    member: Member,
    options: RunOptions,
    set_options: SetOptions,
    watch: Watch,
    on_plan: Callable[[RetryPlan], None],
) -> RunEnd:
    if member.newest is None:
        return await run_experiment(member.experiment, options, watch)
    await drain(member.newest, options)
    lineage_id = read_run(member.newest).lineage_id
    chain = lineage(member.newest, lineage_id)
    retry = RetryPlan(
        experiment=member.experiment,
        lineage_id=lineage_id,
        retry_of=tuple(str(run.root.resolve()) for run in chain),
        reuse=plan_reuse(member.experiment, open_sources(chain), edited=set_options.reuse_edited),
        changed=changes_since(member.newest, member.experiment),
    )
    return await carry_out_retry(retry, options, watch, on_plan=on_plan)


async def _is_stopped_within(wait_s: float, options: SetOptions) -> bool:
    """Wait; whether somebody asked to stop before the time was up."""
    request = StopRequest()
    with signals_stop(request):
        options.on_wait(wait_s)
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(asyncio.sleep(wait_s)), group.create_task(_until(request.stopped))]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in waits:
                task.cancel()
    return request.stopped.is_set()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _is_owed(member: Member, end: RunEnd | None) -> bool:
    if member.state == "done":
        return False
    return end is None or (end.exit_code is not ExitCode.SUCCESS and not end.is_used_up)


def _wait_s(attempt: int, options: SetOptions) -> float:
    return backoff.wait_s(
        attempt - 2, first_s=options.wait_s, longest_s=LONGEST_WAIT_S, jitter=random.random()
    )


def _conclude_early(members: Sequence[Member], ends: dict[int, RunEnd]) -> SetEnd:
    """Somebody asked to stop: that is how the set ends, unless nothing is left to do."""
    end = _conclude(members, ends)
    is_owed = any(_is_owed(member, ends.get(number)) for number, member in enumerate(members))
    return replace(end, exit_code=ExitCode.INTERRUPTED) if is_owed else end


def _conclude(members: Sequence[Member], ends: dict[int, RunEnd]) -> SetEnd:
    codes = [end.exit_code for end in ends.values() if end.exit_code is not ExitCode.SUCCESS]
    return SetEnd(
        ends=tuple(ends.values()),
        newest=tuple(
            (member.experiment, member.newest)
            for number, member in enumerate(members)
            if member.newest is not None and (number in ends or member.state == "done")
        ),
        done_before=tuple(m.newest for m in members if m.state == "done" and m.newest is not None),
        exit_code=codes[0] if codes else ExitCode.SUCCESS,
    )
