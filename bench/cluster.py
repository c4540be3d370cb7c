"""`bench cluster`: the coordinator over made-up nodes, from ten of them to a thousand with 64 attempts each.

Every side carries out the same trials with the real loop, store and commits; only nodes are simulated
(`fakenodes`): attempts take their time there, now and then a node is lost with all that it has, and what it
had answers late. `local` is the same attempts on one machine. Each side fails unless every slot is committed
once, every late answer was refused, and the store holds no attempt any more; all sides must end with the same
digest. `brief` has a quarter of the trials of `tens`: the difference is what trials cost in memory. Nodes end
more attempts than the coordinator can take, so that it is as busy as it can be.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.engine import coordinate
from bench.fakenodes import DeliversLate, FakeCluster, Weather, judge
from bench.figures import Bar, Figure
from bench.idle import IdleExecutor
from bench.memory import peak_mb
from bench.rounds import Rounds, Sample, Side, Sizes, Work, take_rounds
from bench.workload import Shape, make_experiment, split_trials
from labrunner.experiment.resolved import Experiment
from labrunner.records.completion import Completion
from labrunner.records.rows import SlotRows
from labrunner.runner.newrun import Descent, create_new_run, make_record
from labrunner.runner.sitting.publication import Publisher
from labrunner.sandbox.door import Survivor
from labrunner.store.buffering.buffer import read_live
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.rows.journal import read_last_line
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import Assignment, Notes

OFFERED: Final = 8000
"""Attempts a second that nodes would end, whatever their number, if the coordinator kept up with them."""
HERE: Final = 16
"""Attempts at once on one machine."""
LOOK_S: Final = 0.05
TOLD: Final = (
    ("rate", "attempts", "a second"),
    ("cpu_ms", "processor", "ms an attempt"),
    ("peak_mb", "peak", "MB"),
    ("loop_share", "loop", "cores"),
    ("writer_share", "writer", "cores"),
    ("waited_s", "notes durable after", "s"),
)
"""What is told of each side, by its key; the last three where there are nodes."""
LOSSES: Final = 40
"""How many nodes are lost in a side's run."""


class LocalEnds(IdleExecutor):
    """The same attempts on this machine."""

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """End at once."""
        await super().carry_out(assignment, notes, survivor)
        return judge(assignment, None)


@dataclass(slots=True)
class Watched:
    """A run under way: how late its loop is, what each thread takes, and what comes too late."""

    cluster: FakeCluster | None
    publisher: Publisher
    late_s: list[float] = field(default_factory=list)
    threads_s: dict[str, float] = field(default_factory=dict)
    refused: int = 0

    @asynccontextmanager
    async def beside(self, writer: RunWriter) -> AsyncIterator[None]:
        """Watch until the run is over, and every late answer has come."""
        if self.cluster is not None:
            self.cluster.deliver_late = self._refusing(writer)
        began_s = _cpu_s(threading.current_thread())
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._look())
            yield
            if self.cluster is not None:
                await self.cluster.close()
            self.threads_s = {each.name: _cpu_s(each) for each in threading.enumerate()}
            self.threads_s["MainThread"] -= began_s
            looking.cancel()

    def _refusing(self, writer: RunWriter) -> DeliversLate:
        async def deliver(assignment: Assignment, answer: Completion) -> None:
            rows = self.publisher.rows(assignment, (answer,))
            assert not await writer.finish(rows, token=assignment.token), f"{answer.trial_id}: came too late"
            self.refused += 1

        return deliver

    async def _look(self) -> None:
        while True:
            due = time.monotonic() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.late_s.append(time.monotonic() - due)


def prepare(folder: Path, sizes: Sizes, *, nodes: int, trials: int) -> Work:
    """Make a run; the work is to carry it out on so many nodes, or here, and to look whether all is well."""
    places = nodes * sizes["per_node"] or HERE
    experiment, paths = _make_run(folder, trials, places)
    takes_s = places / OFFERED
    weather = Weather(takes_s=takes_s, dispatches_a_loss=max(5, trials // LOSSES), away_s=2 * takes_s)
    cluster = FakeCluster(nodes, sizes["per_node"], weather) if nodes else None
    watched = Watched(cluster, Publisher(experiment=experiment, run_id=paths.root.name))

    def work() -> dict[str, float]:
        began, began_cpu = time.monotonic(), time.process_time()
        asyncio.run(coordinate(experiment, paths, _ignore, cluster or LocalEnds(), watched.beside))
        wall_s, cpu_s = time.monotonic() - began, time.process_time() - began_cpu
        peak = peak_mb()
        check(paths, trials, watched)
        return {
            "digest": _read_digest(paths),
            "rate": trials / wall_s,
            "cpu_ms": 1000 * cpu_s / trials,
            "peak_mb": peak,
            **_tell(watched, wall_s),
        }

    return work


def check(paths: RunPaths, trials: int, watched: Watched) -> None:
    """See that every slot is committed once, from a node that is there, and that nothing is left over."""
    slots, names = 0, set()
    for rows in iter_finished(paths):
        assert rows.schedule_idx == slots, f"slot {rows.schedule_idx} stands where {slots} should"
        slots += 1
        names.add(rows.trial_id)
        assert (rows.timing.attempts[-1].node is not None) == (watched.cluster is not None)
    assert slots == len(names) == trials, f"{slots} slots and {len(names)} trials of {trials}"
    assert read_live(paths.buffer) == ([], [])
    if (cluster := watched.cluster) is not None:
        happened = cluster.happened
        carried_out = happened.dispatched - happened.lost
        assert carried_out == trials, f"{carried_out} attempts came to an end, for {trials} trials"
        assert happened.lost, "no node was lost while it had attempts"
        assert watched.refused == happened.late == happened.lost, "an answer is missing"


def _tell(watched: Watched, wall_s: float) -> dict[str, float]:
    late = sorted(watched.late_s) or [0.0]
    told = {
        "late_ms": 1000 * late[int(len(late) * 0.99)],
        "loop_share": watched.threads_s["MainThread"] / wall_s,
        "writer_share": watched.threads_s["lab-writer"] / wall_s,
    }
    if watched.cluster is not None:
        happened = watched.cluster.happened
        told |= {
            "lost": happened.lost,
            "most_at_once": happened.most_at_once,
            "waited_s": happened.waited_s / happened.dispatched,
        }
    return told


def _make_run(folder: Path, trials: int, places: int) -> tuple[Experiment, RunPaths]:
    tasks, replications = split_trials(trials)
    shape = Shape(tasks=tasks, replications=replications, concurrency=places, sandbox="process")
    experiment = make_experiment(folder / "experiment", shape)
    record = make_record(experiment, run_id="bench")
    return experiment, create_new_run(folder / "runs", experiment, record, Descent())


def _read_digest(paths: RunPaths) -> float:
    """A run's digest, as much of it as a float holds."""
    last = read_last_line(paths.commits, paths.root.name)
    assert last is not None
    return int(last.chain.removeprefix("sha256:")[:12], 16)


def _ignore(rows: SlotRows) -> None:
    del rows


def _cpu_s(thread: threading.Thread) -> float:
    """What a thread has taken of the processor so far."""
    stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / 100


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("cluster", tuple(SIDES), sizes, rounds)
    for side in ("tens", "hundreds", "all"):
        ours, other = ({sample.extra["digest"] for sample in taken.sides[each]} for each in (side, "local"))
        assert ours == other, f"{side}: another digest than on one machine"
    return Found(figures=tuple(_figures(taken, sizes)), samples=_samples(taken))


def _figures(taken: Rounds, sizes: Sizes) -> list[Figure]:
    found = []
    for side, nodes in (("local", 0), *_nodes(sizes).items()):
        where = f"{nodes:,} nodes" if nodes else "one machine"
        told = [(name, unit, taken.median(side, _of(key))) for key, name, unit in TOLD[: 6 if nodes else 3]]
        found += [Figure(name=f"{where}: {name}", value=value, unit=unit) for name, unit, value in told]
    least, most = (_nodes(sizes)[side] for side in ("tens", "all"))
    grown = taken.median("all", _of("peak_mb")) - taken.median("tens", _of("peak_mb"))
    flat = taken.ratio("tens", "brief", _of("peak_mb"))
    cost = taken.ratio("all", "tens", _of("cpu_ms"))
    return [
        *found,
        Figure(name="memory a node", value=grown / max(1, most - least), unit="MB", bar=Bar("at_most", 1.0)),
        Figure(name="memory at 4 times the trials", value=flat, unit="x", bar=Bar("at_most", 1.1)),
        Figure(name="ratio", value=cost, unit="x", bar=Bar("at_most", 2.0)),
    ]


def _samples(taken: Rounds) -> dict[str, list[float]]:
    return {side: [each.extra["cpu_ms"] for each in samples] for side, samples in taken.sides.items()}


def _of(name: str) -> Callable[[Sample], float]:
    return lambda sample: sample.extra[name]


def _nodes(sizes: Sizes) -> dict[str, int]:
    """How many nodes each side has."""
    return {
        "tens": max(2, sizes["nodes"] // 100),
        "hundreds": max(2, sizes["nodes"] // 10),
        "all": sizes["nodes"],
    }


def _side(name: str, share: int = 1) -> Side:
    def side(folder: Path, sizes: Sizes) -> Work:
        return prepare(folder, sizes, nodes=_nodes(sizes).get(name, 0), trials=sizes["trials"] // share)

    return side


SIDES: Final[dict[str, Side]] = {
    "local": _side("local"),
    "brief": _side("tens", share=4),
    **{name: _side(name) for name in ("tens", "hundreds", "all")},
}
BENCH: Final = Bench(
    name="cluster",
    work="a run on a thousand made-up nodes: some are lost, and answer late",
    against="processor time an attempt, with a hundredth of the nodes",
    sizes={"trials": 120_000, "nodes": 1_000, "per_node": 64},
    rounds=3,
    measure=measure,
)
