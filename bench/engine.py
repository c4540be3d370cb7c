"""`bench engine`: trials that do nothing, through coordinator and store, with full durability.

Ours: coordinator and writer over a new run, from opening its files to closing them: slots assigned, noted,
completed, published, validated, hashed, appended, synced, journalled, acknowledged. Bare: a loop over the
same rows, made beforehand, that encodes, validates and hashes them and appends them to the same five
files, each synced once for every 64 trials. Out on both sides: loading the experiment, making the run's
folder, the summary.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Final

import msgspec

from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.idle import IdleExecutor, complete
from bench.rounds import Side, Sizes, Work, take_rounds
from bench.workload import Shape, make_experiment, split_trials
from labrunner.executor.door import Executor
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.records import schema
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.records.rows import SlotRows
from labrunner.runner.leftovers.resumption import Resumption
from labrunner.runner.newrun import Descent, create_new_run, make_record
from labrunner.runner.plan import Plan
from labrunner.runner.sitting.course import Course, Tallies
from labrunner.runner.sitting.loop import RunLoop
from labrunner.runner.sitting.publication import Publisher
from labrunner.store.layout import RunPaths
from labrunner.store.writing.writer import RunWriter, open_writer
from labrunner.trial.assignment import Assignment

Beside = Callable[[RunWriter], AbstractAsyncContextManager[None]]
"""What goes on while a run is carried out."""
GROUP: Final = 64
_FILES: Final = {
    "benchmark_prediction_record_v1": "predictions",
    "benchmark_score_record_v1": "scores",
    "trial_record_v1": "trials",
    "trial_timing_v1": "timings",
}
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def make_run(folder: Path, sizes: Sizes) -> tuple[Experiment, RunPaths]:
    """Make an experiment and the directory of a run of it."""
    experiment = _experiment(folder, sizes)
    record = make_record(experiment, run_id="bench")
    return experiment, create_new_run(folder / "runs", experiment, record, Descent())


def prepare_ours(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to carry it out."""
    experiment, paths = make_run(folder, sizes)

    def work() -> None:
        asyncio.run(coordinate(experiment, paths, lambda _: None))

    return work


async def coordinate(
    experiment: Experiment,
    paths: RunPaths,
    on_finished: Callable[[SlotRows], None],
    executor: Executor | None = None,
    beside: Beside | None = None,
) -> None:
    """Carry out a run, on the idle executor unless another one is given."""
    schedule = Schedule.of(experiment)
    async with open_writer(paths) as writer:
        plan = Plan(
            experiment=experiment,
            schedule=schedule,
            run_id=paths.root.name,
            paths=paths,
            concurrency=int(experiment.policy.max_concurrency),
            grace_s=5.0,
        )
        course = Course(tallies=Tallies(planned=len(schedule)), on_finished=on_finished)
        async with beside(writer) if beside is not None else nullcontext():
            await RunLoop(plan, executor or IdleExecutor(), writer, course, Resumption()).run()
            await writer.settle()
        committed = writer.counts().committed
    assert committed == len(schedule), f"{committed} of {len(schedule)} committed"


def prepare_bare(folder: Path, sizes: Sizes) -> Work:
    """Make the rows that a run would commit; the work is to append them."""
    experiment = _experiment(folder, sizes)
    publisher, schedule = Publisher(experiment=experiment, run_id="bench"), Schedule.of(experiment)
    slots = [_rows(publisher, schedule, idx) for idx in range(len(schedule))]
    for kind in _FILES:
        schema.load(kind)

    def work() -> None:
        append_rows(folder, slots)

    return work


def append_rows(folder: Path, slots: Sequence[SlotRows]) -> None:
    """Encode, validate, hash and append rows; sync every file once for every group of slots."""
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    files = {name: os.open(folder / f"{name}.jsonl", how) for name in (*_FILES.values(), "commits")}
    chain = ""
    for start in range(0, len(slots), GROUP):
        lines: dict[str, list[bytes]] = {name: [] for name in files}
        for slot in slots[start : start + GROUP]:
            chain = add_lines(lines, slot, chain)
        for name, fd in files.items():
            if lines[name]:
                os.write(fd, b"".join(lines[name]))
                os.fdatasync(fd)
    for fd in files.values():
        os.close(fd)


def add_lines(lines: dict[str, list[bytes]], slot: SlotRows, chain: str) -> str:
    """Encode, validate and hash the rows of a slot; return the hash."""
    state = hashlib.sha256(chain.encode())
    for kind, row in _kinds(slot):
        line = _encode(row)
        if not schema.load(kind).is_valid(msgspec.json.decode(line)):
            raise ValueError(f"not a {kind}: {line!r}")
        state.update(line)
        lines[_FILES[kind]].append(line + b"\n")
    chain = state.hexdigest()
    lines["commits"].append(_encode({"idx": slot.schedule_idx, "chain": chain}) + b"\n")
    return chain


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("engine", tuple(SIDES), sizes, rounds)
    rate = sizes["trials"] / taken.median("ours")
    return Found(
        figures=(
            Figure(name="bare", value=sizes["trials"] / taken.median("bare"), unit="trials/s"),
            Figure(name="ours", value=rate, unit="trials/s", bar=Bar("at_least", 1500)),
            Figure(name="processor time", value=taken.ratio("ours", "bare", lambda s: s.cpu_s), unit="x"),
            Figure(name="ratio", value=taken.ratio("ours", "bare"), unit="x", bar=Bar("at_most", 3)),
        ),
        samples={name: [sample.wall_s for sample in samples] for name, samples in taken.sides.items()},
    )


def _experiment(folder: Path, sizes: Sizes) -> Experiment:
    tasks, replications = split_trials(sizes["trials"])
    shape = Shape(tasks=tasks, replications=replications, concurrency=sizes["concurrency"], sandbox="process")
    return make_experiment(folder / "experiment", shape)


def _rows(publisher: Publisher, schedule: Schedule, idx: int) -> SlotRows:
    experiment, slot = publisher.experiment, schedule.slot(idx)
    variant_id, task_id = experiment.variants[slot.variant_idx].id, experiment.tasks[slot.task_idx].id
    trial_id = make_trial_id(variant_id, task_id, slot.repl_idx)
    assignment = Assignment(token=make_token(), slot=slot, trial_id=trial_id, attempt=1)
    return publisher.rows(assignment, (complete(assignment),))


def _kinds(slot: SlotRows) -> Iterator[tuple[str, msgspec.Struct]]:
    for prediction in slot.predictions:
        yield "benchmark_prediction_record_v1", prediction
    for score in slot.scores:
        yield "benchmark_score_record_v1", score
    yield "trial_record_v1", slot.trial
    yield "trial_timing_v1", slot.timing


SIDES: Final[dict[str, Side]] = {"bare": prepare_bare, "ours": prepare_ours}
BENCH: Final = Bench(
    name="engine",
    work="trials that do nothing, through coordinator and store, with full durability",
    against="a loop that encodes, validates, hashes and appends the same rows, synced once for every 64",
    sizes={"trials": 20_000, "concurrency": 16},
    rounds=3,
    measure=measure,
)
