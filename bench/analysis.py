"""`bench analysis`: what it takes to look at a long run: `lab show`, and a group-by with `lab query`.

Both as a person calls them, from the start of the process to its end. Against reading the files that they
need once. The run is made without running anything: the rows that a runner would have committed.
"""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.idle import complete
from bench.rounds import Side, Sizes, Work, take_rounds
from bench.workload import Shape, make_experiment, split_trials
from labrunner.experiment.schedule import Schedule, Slot
from labrunner.records.commit import NO_ROWS, chain_start
from labrunner.records.completion import Graded
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import make_trial_id
from labrunner.records.rows import SlotRows
from labrunner.records.run import Counts, ScheduleProgress, StatusRecord
from labrunner.records.seals import seal
from labrunner.runner.newrun import Descent, create_new_run, make_record
from labrunner.runner.sitting.publication import Publisher
from labrunner.store.committing.committer import make_line
from labrunner.store.layout import RunPaths
from labrunner.store.rows.slot_bytes import encode_slot
from labrunner.trial.assignment import Assignment

LAB: Final = str(Path(sys.executable).with_name("lab"))
SQL: Final = "select variant_id, count(*), avg(value) from trials group by 1"
AT: Final = "2026-01-01T00:00:00.000Z"


def prepare_read(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to read its trials and timings once."""
    paths = make_run(folder, sizes)

    def work() -> None:
        for path in (paths.trials, paths.timings):
            with path.open("rb") as file:
                while file.read(2**22):
                    pass

    return work


def prepare_lab(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to show it and to ask it."""
    make_run(folder, sizes)

    def work() -> dict[str, float]:
        return {"show": _call(folder, "show", "bench"), "query": _call(folder, "query", "bench", SQL)}

    work()
    return work


def make_run(folder: Path, sizes: Sizes) -> RunPaths:
    """Write a run whose trials all ended, some of them well."""
    tasks, replications = split_trials(sizes["trials"])
    shape = Shape(tasks=tasks, replications=replications, concurrency=1, sandbox="process")
    experiment = make_experiment(folder, shape)
    schedule, publisher = Schedule.of(experiment), Publisher(experiment=experiment, run_id="bench")
    record = make_record(experiment, run_id="bench")
    paths = create_new_run(folder / ".lab" / "runs", experiment, record, Descent())
    chain, ends = chain_start(record.digests.experiment, record.digests.schedule), NO_ROWS
    with ExitStack() as stack:
        trials, timings, scores, commits = (
            stack.enter_context(path.open("ab"))
            for path in (paths.trials, paths.timings, paths.scores, paths.commits)
        )
        for slot in schedule:
            rows = encode_slot("bench", _rows(publisher, slot))
            line = make_line("bench", chain, ends, rows)
            chain, ends = line.chain, line.ends
            trials.write(rows.trial + b"\n")
            timings.write(rows.timing + b"\n")
            scores.write(rows.scores[0] + b"\n")
            commits.write(canonical.encode_line(line))
    _write_status(paths, len(schedule), chain)
    return paths


def _rows(publisher: Publisher, slot: Slot) -> SlotRows:
    experiment = publisher.experiment
    trial_id = make_trial_id(
        experiment.variants[slot.variant_idx].id, experiment.tasks[slot.task_idx].id, slot.repl_idx
    )
    assignment = Assignment(slot=slot, trial_id=trial_id, attempt=1, token="t")
    done = complete(assignment)
    assert isinstance(done.end, Graded)
    passes = (slot.task_idx * 7 + slot.repl_idx * 3) % 10 < slot.task_idx % 10
    end = msgspec.structs.replace(
        done.end, verdict="pass" if passes else "fail", primary_metric_value=float(passes)
    )
    return publisher.rows(assignment, (msgspec.structs.replace(done, end=end),))


def _write_status(paths: RunPaths, planned: int, chain: str) -> None:
    counts = Counts(planned=planned, committed=planned, buffered=0, running=0, passed=0, failed=0, errors=0)
    status = StatusRecord(
        schema_version="status_v1",
        run_id="bench",
        status="success",
        counts=counts,
        schedule_progress=ScheduleProgress(next_schedule_idx=planned, total=planned),
        error=None,
        started_at=AT,
        updated_at=AT,
        ended_at=AT,
        chain=chain,
    )
    paths.status.write_bytes(canonical.encode_line(seal(status)))


def _call(folder: Path, *words: str) -> float:
    start = time.perf_counter()
    subprocess.run([LAB, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("analysis", tuple(SIDES), sizes, rounds)
    show = taken.median("lab", lambda sample: sample.extra["show"])
    query = taken.median("lab", lambda sample: sample.extra["query"])
    return Found(
        figures=(
            Figure(name="reading the files", value=taken.median("read"), unit="s"),
            Figure(name="lab show", value=show, unit="s", bar=Bar("at_most", 2.0)),
            Figure(name="lab query, group by", value=query, unit="s", bar=Bar("at_most", 1.0)),
            Figure(name="ratio", value=taken.ratio("lab", "read"), unit="x"),
        ),
        samples={
            "read": [sample.wall_s for sample in taken.sides["read"]],
            "show": [sample.extra["show"] for sample in taken.sides["lab"]],
            "query": [sample.extra["query"] for sample in taken.sides["lab"]],
        },
    )


SIDES: Final[dict[str, Side]] = {"read": prepare_read, "lab": prepare_lab}
BENCH: Final = Bench(
    name="analysis",
    work="`lab show` of a run, and a group-by over its trials with `lab query`",
    against="reading its trials and timings once",
    sizes={"trials": 100_000},
    rounds=3,
    measure=measure,
)
