"""`bench bubblewrap`: trials in bubblewrap, several at once.

Ours: a whole run, from preflight to summary, with limits by control group where there is one. Bare: a pool
of as many threads that makes the folders to be bound, launches `bwrap` twice with the same namespaces, the
same mounts and the same copied files, doing the same agent's and grader's work, reads the score and removes
the folders. Out of the bare side: limits, time-outs, logs by phase, syncing, everything about rows.
"""

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench import files
from bench.catalogue import Bench, Found
from bench.rounds import Side, Sizes, Work, take_rounds
from bench.workload import AGENT, GRADER
from labrunner.sandbox.bubblewrap.program import find_bwrap
from labrunner.sandbox.bubblewrap.view import UID, host_view
from labrunner.sandbox.paths import AGENTLAB, HOME, TMP

FOLDERS: Final = ("in", "workspace", "out", "state", "grader", "home", "tmp")


def prepare_ours(folder: Path, sizes: Sizes) -> Work:
    """The work is a whole run."""
    return files.prepare_run(folder, sizes, "bubblewrap")


def prepare_bare(folder: Path, sizes: Sizes) -> Work:
    """The work is a pool of threads, each carrying out trials one after another."""
    copied = folder / "copied"
    copied.mkdir()
    for number, (_, content) in enumerate(host_view().files):
        (copied / str(number)).write_bytes(content)
    (folder / "trials").mkdir()

    def trial(number: int) -> None:
        carry_out(folder / "trials" / str(number), copied)

    def work() -> None:
        with ThreadPoolExecutor(sizes["concurrency"]) as pool:
            for _ in pool.map(trial, range(sizes["trials"])):
                pass

    return work


def carry_out(root: Path, copied: Path) -> None:
    """Carry out one trial."""
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    (root / "in" / "task.json").write_text("{}\n")
    launch(root, copied, "agent", AGENT)
    (root / "grader" / "target.json").write_text("42\n")
    launch(root, copied, "grader", GRADER)
    assert json.loads((root / "out" / "benchmark_score.json").read_bytes())["score"] == 1
    shutil.rmtree(root)


def launch(root: Path, copied: Path, phase: str, script: str) -> None:
    """Launch bwrap once."""
    bwrap = find_bwrap()
    assert bwrap is not None, "bwrap is not installed"
    with ExitStack() as stack:
        inside = [path for path, _ in host_view().files]
        opened = [stack.enter_context((copied / str(number)).open("rb")) for number in range(len(inside))]
        fds = [file.fileno() for file in opened]
        copies = [
            word
            for fd, path in zip(fds, inside, strict=True)
            for word in ("--perms", "0444", "--file", str(fd), path)
        ]
        argv = [bwrap.path, *bwrap.core_args, *_mounts(root, phase, copies), "--", "/bin/sh", "-c", script]
        subprocess.run(
            argv, env={}, pass_fds=fds, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
        )


def _mounts(root: Path, phase: str, copies: list[str]) -> list[str]:
    """What a phase of ours sees."""
    binds = [("--ro-bind", "in"), ("--bind", "workspace"), ("--bind", "out"), ("--bind", "state")]
    binds += [("--ro-bind", "grader")] if phase == "grader" else []
    return [
        *("--clearenv", "--uid", str(UID), "--gid", str(UID), "--hostname", "agentlab"),
        *host_view().mounts,
        *copies,
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(2 << 30), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *(word for how, name in binds for word in (how, str(root / name), f"{AGENTLAB}/{name}")),
        *("--bind", str(root / "home"), HOME, "--bind", str(root / "tmp"), TMP),
        *("--remount-ro", "/", "--chdir", f"{AGENTLAB}/workspace"),
        *("--setenv", "PATH", os.defpath, "--setenv", "HOME", HOME, "--setenv", "TMPDIR", TMP),
        *("--setenv", "AGENTLAB_BENCHMARK_SCORE_PATH", f"{AGENTLAB}/out/benchmark_score.json"),
    ]


def measure(sizes: Sizes, rounds: int) -> Found:
    return files.found(take_rounds("bubblewrap", tuple(SIDES), sizes, rounds), sizes, at_most=1.5)


SIDES: Final[dict[str, Side]] = {"bare": prepare_bare, "ours": prepare_ours}
BENCH: Final = Bench(
    name="bubblewrap",
    work="trials in bubblewrap: preflight, run, summary",
    against="two bare bwrap launches a trial with the same mounts, doing the same",
    sizes={"trials": 400, "concurrency": 4},
    rounds=3,
    measure=measure,
)
