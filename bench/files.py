"""`bench files`: trials of bare processes with all their folders and files, 16 at once.

Ours: a whole run in the process sandbox, from preflight to summary. Bare: a pool of as many threads that
makes the same folders, writes the same inputs, starts the same two commands with their output in the same
log files, reads the score, syncs the files that a row would name and the folders on the way to them,
removes what a run removes, and appends one row a trial to one file, synced once for every 64. Out of
the bare side: limits, time-outs, the barrier, validation, hashes, the journal, order.
"""

import json
import os
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.rounds import Rounds, Side, Sizes, Work, take_rounds
from bench.workload import AGENT, GRADER, Shape, make_experiment, split_trials
from labrunner.errors import ExitCode
from labrunner.experiment.schedule import Schedule
from labrunner.runner.own_loop import run_alone
from labrunner.runner.sitting.sitting import Live
from labrunner.runner.start import RunOptions, run_experiment

GROUP: Final = 64
FOLDERS: Final = ("in", "workspace", "out", "state", "grader", "logs", "scratch")
ENV: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def prepare_ours(folder: Path, sizes: Sizes) -> Work:
    """The work is a whole run."""
    return prepare_run(folder, sizes, "process")


def prepare_run(folder: Path, sizes: Sizes, sandbox: str) -> Work:
    """Load an experiment; the work is to run it in a kind of sandbox."""
    tasks, replications = split_trials(sizes["trials"])
    shape = Shape(tasks=tasks, replications=replications, concurrency=sizes["concurrency"], sandbox=sandbox)
    experiment = make_experiment(folder / "experiment", shape)
    options = RunOptions(runs_dir=folder / "runs", secrets={}, run_id="bench")

    async def watch(live: Live) -> None:
        """Nobody looks."""

    def work() -> None:
        end = run_alone(run_experiment(experiment, options, watch))
        assert end.exit_code == ExitCode.SUCCESS, end.status.error
        assert end.status.counts.passed == len(Schedule.of(experiment)), end.status.counts

    return work


def prepare_bare(folder: Path, sizes: Sizes) -> Work:
    """The work is a pool of threads, each carrying out trials one after another."""
    rows = Rows(folder / "rows.jsonl")

    def trial(number: int) -> None:
        rows.append(carry_out(folder / "trials" / f"task-{number:05}", number))

    def work() -> None:
        (folder / "trials").mkdir()
        with ThreadPoolExecutor(sizes["concurrency"]) as pool:
            for _ in pool.map(trial, range(sizes["trials"])):
                pass
        rows.sync()

    return work


def carry_out(trial: Path, number: int) -> dict[str, object]:
    """Carry out one trial in its folder."""
    root = trial / "1"
    lay_out(root, number)
    run(root, "agent", AGENT)
    (root / "grader" / "target.json").write_text("42\n")
    run(root, "grader", GRADER)
    score = json.loads((root / "out" / "benchmark_score.json").read_bytes())
    sync(root)
    for name in ("scratch", "grader", "workspace"):
        shutil.rmtree(root / name)
    return {"trial": trial.name, "score": score["score"]}


def lay_out(root: Path, number: int) -> None:
    """Make the folders of an attempt and what its agent may know."""
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    for name in ("agent-home", "agent-tmp", "grader-home", "grader-tmp"):
        (root / "scratch" / name).mkdir()
    (root / "in" / "task.json").write_text(json.dumps({"id": root.parent.name, "input": {"n": number}}))
    (root / "in" / "bindings.json").write_text("{}\n")
    (root / "in" / "policy.json").write_text(json.dumps({"timeout_ms": 600_000, "limits": {}}))


def run(root: Path, phase: str, script: str) -> None:
    """Start one command and wait for it."""
    env = {
        **ENV,
        "HOME": str(root / "scratch" / f"{phase}-home"),
        "TMPDIR": str(root / "scratch" / f"{phase}-tmp"),
        "AGENTLAB_BENCHMARK_SCORE_PATH": str(root / "out" / "benchmark_score.json"),
    }
    logs = root / "logs"
    with (logs / f"{phase}.stdout").open("wb") as out, (logs / f"{phase}.stderr").open("wb") as err:
        subprocess.run(
            ["/bin/sh", "-c", script],
            env=env,
            cwd=root / "workspace",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            check=True,
        )


def sync(root: Path) -> None:
    """Sync the files that a row names, and the folders on the way to them; drop empty logs."""
    for log in (root / "logs").iterdir():
        if log.stat().st_size == 0:
            log.unlink()
    named = [root / "out" / "benchmark_score.json", *(root / "logs").iterdir()]
    for path in (*named, root / "out", root / "logs", root, root.parent, root.parent.parent):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


class Rows:
    """One file of rows, synced once for every group."""

    def __init__(self, path: Path) -> None:
        """Open it."""
        self._file = path.open("ab")
        self._lock = threading.Lock()
        self._count = 0

    def append(self, row: dict[str, object]) -> None:
        """Append a row; every so many of them, sync."""
        with self._lock:
            self._file.write(json.dumps(row).encode() + b"\n")
            self._count += 1
            if self._count % GROUP == 0:
                self.sync()

    def sync(self) -> None:
        """Make what was appended durable."""
        self._file.flush()
        os.fdatasync(self._file.fileno())


def measure(sizes: Sizes, rounds: int) -> Found:
    return found(take_rounds("files", tuple(SIDES), sizes, rounds), sizes, at_most=2)


def found(taken: Rounds, sizes: Sizes, *, at_most: float) -> Found:
    """Figures of a bench whose sides carry out trials."""
    return Found(
        figures=(
            Figure(name="bare", value=1000 * taken.median("bare") / sizes["trials"], unit="ms per trial"),
            Figure(name="ours", value=1000 * taken.median("ours") / sizes["trials"], unit="ms per trial"),
            Figure(name="processor time", value=taken.ratio("ours", "bare", lambda s: s.cpu_s), unit="x"),
            Figure(name="ratio", value=taken.ratio("ours", "bare"), unit="x", bar=Bar("at_most", at_most)),
        ),
        samples={name: [sample.wall_s for sample in samples] for name, samples in taken.sides.items()},
    )


SIDES: Final[dict[str, Side]] = {"bare": prepare_bare, "ours": prepare_ours}
BENCH: Final = Bench(
    name="files",
    work="process trials with their folders: preflight, run, summary",
    against="a pool of threads that writes and syncs the same files and starts the same commands",
    sizes={"trials": 2_000, "concurrency": 16},
    rounds=3,
    measure=measure,
)
