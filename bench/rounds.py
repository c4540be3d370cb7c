"""Interleaved rounds: every side of a bench in a process of its own, one after another, several times.

Rules: a machine's weather changes while we measure, so a ratio is taken within a round, and the median of
the rounds' ratios counts. Wall time is that of the work alone, taken inside; processor time is that of
the whole tree of processes, whoever reaped them, less what starting took.
"""

import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

PR_SET_CHILD_SUBREAPER = 36
Sizes = Mapping[str, int]
Work = Callable[[], Mapping[str, float] | None]
"""What is timed. May return further measurements by name."""
Side = Callable[[Path, Sizes], Work]
"""Prepares in an empty folder, untimed, and returns the work."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One side in one round."""

    wall_s: float
    cpu_s: float
    extra: dict[str, float] = {}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of a side says when its work is done."""

    wall_s: float
    cpu_before_s: float
    extra: dict[str, float] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Samples of every side, round by round."""

    sides: Mapping[str, Sequence[Sample]]

    def ratio(self, side: str, to: str, measure: Callable[[Sample], float] = lambda s: s.wall_s) -> float:
        """The median over rounds of one side's measure in terms of another's."""
        pairs = zip(self.sides[side], self.sides[to], strict=True)
        return statistics.median(measure(one) / measure(other) for one, other in pairs)

    def median(self, side: str, measure: Callable[[Sample], float] = lambda s: s.wall_s) -> float:
        """The median over rounds of one side's measure."""
        return statistics.median(map(measure, self.sides[side]))


def take_rounds(bench: str, sides: Sequence[str], sizes: Sizes, rounds: int) -> Rounds:
    """Run the sides of a bench in turn, as many times as asked."""
    _adopt_orphans()
    samples: dict[str, list[Sample]] = {side: [] for side in sides}
    for number in range(1, rounds + 1):
        # Every other round backwards: nobody is always the one who runs behind the other.
        for side in sides if number % 2 else reversed(sides):
            print(f"  round {number}/{rounds}: {side} ...", end="", file=sys.stderr, flush=True)
            sample = take_sample(bench, side, sizes)
            print(f" {sample.wall_s:.2f} s", file=sys.stderr)
            samples[side].append(sample)
    return Rounds(sides=samples)


def take_sample(bench: str, side: str, sizes: Sizes) -> Sample:
    """Run one side once, in a process and a folder of its own."""
    before = _children_cpu_s()
    with tempfile.TemporaryDirectory(prefix=f"lab-bench-{bench}-") as folder:
        argv = [sys.executable, "-m", "bench.side", bench, side, folder, msgspec.json.encode(sizes).decode()]
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench {bench}: {side} failed with exit status {done.returncode}; see above")
        told = msgspec.json.decode(done.stdout, type=Told)
        _reap_orphans()
        cpu_s = _children_cpu_s() - before - told.cpu_before_s
    return Sample(wall_s=told.wall_s, cpu_s=cpu_s, extra=told.extra)


def _adopt_orphans() -> None:
    """Become the parent of what a side leaves behind, so that its processor time is counted."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap_orphans() -> None:
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
