"""`bench nodes`: the same trials on this machine, and on two nodes of a Ray cluster of one core each.

Agents compute (`busy`), as many at once as there are cores, or end at once (`quick`), many at a time.
What counts is the time from the first attempt's beginning to the last one's end, by the records of the run:
starting a cluster and its workers is out. Both sides of a pair must have the same digest.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.rounds import Sample, Side, Sizes, Work, take_rounds
from bench.workload import AGENT, Shape, split_trials, write_experiment
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.rows.journal import read_last_line
from tests.kit.executor.rayclusters import RayCluster

LAB: Final = str(Path(sys.executable).with_name("lab"))
NODES: Final = 2
AT_ONCE: Final = 16
"""Attempts that end at once, on all cores together."""


def prepare(folder: Path, sizes: Sizes, *, is_busy: bool, on_nodes: bool) -> Work:
    """Start two nodes if they are asked for; the work is a run, whose records tell how long it took."""
    trials, at_once = (sizes["trials"], NODES) if is_busy else (sizes["quick"], AT_ONCE)
    tasks, replications = split_trials(trials)
    spin = f"i=0; while [ $i -lt {1000 * sizes['kilospins']} ]; do i=$((i + 1)); done; {AGENT}"
    shape = Shape(
        tasks=tasks,
        replications=replications,
        concurrency=at_once,
        sandbox="process",
        agent=spin if is_busy else AGENT,
    )
    write_experiment(folder, shape)
    cluster, words = start_nodes(at_once // NODES) if on_nodes else (None, [])

    def work() -> dict[str, float]:
        try:
            argv = [LAB, "run", "--run-id", "bench", *words]
            done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
        finally:
            if cluster is not None:
                cluster.close()
        assert done.returncode == 0, done.stderr
        return _read(RunPaths(folder / ".lab" / "runs" / "bench"), trials, is_elsewhere=on_nodes)

    return work


def start_nodes(per_node: int) -> tuple[RayCluster, Sequence[str]]:
    """Two nodes, each on a core of its own where there are as many."""
    cluster, cores = RayCluster.make(), sorted(os.sched_getaffinity(0))
    try:
        for number in range(NODES):
            os.sched_setaffinity(0, {cores[number % len(cores)]})  # a node has what we have when it starts
            cluster.start(f"n{number + 1}")
    finally:
        os.sched_setaffinity(0, cores)
    where = ("--executor", "ray", "--executor-address", cluster.address)
    return cluster, (*where, "--set", f"executor.per_node={per_node}")


def _read(paths: RunPaths, trials: int, *, is_elsewhere: bool) -> dict[str, float]:
    times = [rows.timing.attempts[-1] for rows in iter_finished(paths)]
    last = read_last_line(paths.commits, paths.root.name)
    assert last is not None
    assert len(times) == trials
    assert len({each.node for each in times}) == (NODES if is_elsewhere else 1)
    began = min(datetime.fromisoformat(each.started_at) for each in times)
    ended = max(datetime.fromisoformat(each.ended_at) for each in times)
    return {
        "span_s": (ended - began).total_seconds(),
        "digest": int(last.chain.removeprefix("sha256:")[:12], 16),
    }


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("nodes", tuple(SIDES), sizes, rounds)
    for here, there in (("busy_here", "busy"), ("quick_here", "quick")):
        digests = {each.extra["digest"] for side in (here, there) for each in taken.sides[side]}
        assert len(digests) == 1, f"{there}: another digest than on one machine"
    quick_here, quick = (sizes["quick"] / taken.median(side, _span) for side in ("quick_here", "quick"))
    ratio = taken.ratio("busy", "busy_here", _span)
    return Found(
        figures=(
            Figure(name="busy here", value=taken.median("busy_here", _span), unit="s"),
            Figure(name="busy on nodes", value=taken.median("busy", _span), unit="s"),
            Figure(name="quick here", value=quick_here, unit="attempts/s"),
            Figure(name="quick on nodes", value=quick, unit="attempts/s"),
            Figure(name="ratio", value=ratio, unit="x", bar=Bar("at_most", 1.15)),
        ),
        samples={name: [_span(sample) for sample in samples] for name, samples in taken.sides.items()},
    )


def _span(sample: Sample) -> float:
    return sample.extra["span_s"]


def _side(*, is_busy: bool, on_nodes: bool) -> Side:
    def side(folder: Path, sizes: Sizes) -> Work:
        return prepare(folder, sizes, is_busy=is_busy, on_nodes=on_nodes)

    return side


SIDES: Final[dict[str, Callable[[Path, Sizes], Work]]] = {
    "busy_here": _side(is_busy=True, on_nodes=False),
    "busy": _side(is_busy=True, on_nodes=True),
    "quick_here": _side(is_busy=False, on_nodes=False),
    "quick": _side(is_busy=False, on_nodes=True),
}
BENCH: Final = Bench(
    name="nodes",
    work="trials that compute, on two nodes of a Ray cluster with one core each",
    against="the same trials on this machine, two at a time",
    sizes={"trials": 60, "kilospins": 1_500, "quick": 600},
    rounds=3,
    measure=measure,
)
