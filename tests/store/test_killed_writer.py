"""The writer killed with SIGKILL at every durable step, then opened again and finished."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from labrunner.files.points import POINTS
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished, read_state
from tests.kit.store.driver import PLANNED, write_all
from tests.kit.store.sample import committed_bytes

ROOT = Path(__file__).parents[2]
ELSEWHERE = ("open.", "recover.", "marks.", "depot.", "outages.", "layer.")
"""Tried where they are reached: crash/test_outage, sandbox/docker/test_killed_layers, and others."""
WRITING = [point for point in POINTS if not point.startswith(ELSEWHERE)]
OPENING = [point for point in POINTS if point.startswith("open.")]

pytestmark = pytest.mark.crash


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a driver process said before it ended."""

    status: int
    acknowledged: frozenset[int]
    hits: dict[str, int]


def drive(runs_dir: Path, die_at: str) -> Ended:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/kit/store/driver.py"), str(runs_dir)],
        env=os.environ | {"LAB_DIE_AT": die_at, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        stdout=subprocess.PIPE,
        timeout=60,
    )
    slots: set[int] = set()
    hits: dict[str, int] = {}
    for line in done.stdout.decode().splitlines():
        match line.split(" ", 1):
            case ["opened", *rest]:
                slots.update(int(idx) for text in rest for idx in text.split())
            case ["finished", idx]:
                slots.add(int(idx))
            case ["hits", text]:
                hits = json.loads(text)
            case _:
                raise AssertionError(line)
    return Ended(status=done.returncode, acknowledged=frozenset(slots), hits=hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    bytes: dict[str, bytes]
    hits: dict[str, int]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    ended = drive(folder, "nowhere:1")
    assert ended.status == 0
    assert ended.acknowledged == frozenset(range(PLANNED))
    return Undisturbed(bytes=committed_bytes(RunPaths(folder / "run-1")), hits=ended.hits)


@pytest.fixture(scope="module")
def wreck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose owner was killed in the middle of a commit, with torn bytes at the end of every file."""
    folder = tmp_path_factory.mktemp("wreck")
    assert drive(folder, "commit.line_appended:3").status == -signal.SIGKILL
    paths = RunPaths(folder / "run-1")
    for path in (paths.predictions, paths.scores, paths.trials, paths.timings, paths.commits):
        with path.open("ab") as file:
            file.write(b'{"schedule_idx":')
    return folder


def hits_to_try(count: int) -> Iterator[int]:
    assert count > 0, "the scenario never reaches this point"
    yield from sorted({1, min(2, count), count})


def kill_at(point: str, hit: int, start: Callable[[str], Path]) -> tuple[Path, Ended]:
    """Have a driver killed at a point's n-th hit, or its last one.

    How many slots go into one group is a matter of timing, so a run may reach a point less often than
    the one that was counted.
    """
    for attempt in range(10):
        runs_dir = start(f"{hit}-{attempt}")
        ended = drive(runs_dir, f"{point}:{hit}")
        if ended.status == -signal.SIGKILL:
            return runs_dir, ended
        assert ended.status == 0
        assert 0 < ended.hits[point] < hit
        hit = ended.hits[point]
    raise AssertionError(f"{point} was never reached")


def open_and_finish(runs_dir: Path, acknowledged: frozenset[int], undisturbed: Undisturbed) -> None:
    paths = RunPaths(runs_dir / "run-1")
    if paths.root.exists():
        assert acknowledged <= {rows.schedule_idx for rows in iter_finished(paths)}
        before = verify(paths)
        assert before.problems == ()
    else:
        assert acknowledged == frozenset()
    asyncio.run(write_all(runs_dir))
    assert committed_bytes(paths) == undisturbed.bytes
    assert [rows.schedule_idx for rows in iter_finished(paths)] == list(range(PLANNED))
    report = verify(paths)
    assert (report.problems, report.notes, report.is_complete) == ((), (), True)
    assert read_state(paths) == "success"


@pytest.mark.parametrize("point", WRITING)
def test_writer_killed_at_a_durable_step_loses_and_doubles_nothing(
    point: str, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    for hit in hits_to_try(undisturbed.hits.get(point, 0)):
        runs_dir, ended = kill_at(point, hit, lambda name: tmp_path / name)
        open_and_finish(runs_dir, ended.acknowledged, undisturbed)


@pytest.fixture(scope="module")
def opening_hits(wreck: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    copy = tmp_path_factory.mktemp("opening") / "runs"
    shutil.copytree(wreck, copy)
    return drive(copy, "nowhere:1").hits


@pytest.mark.parametrize("point", OPENING)
def test_opening_killed_at_a_durable_step_converges(
    point: str, wreck: Path, opening_hits: dict[str, int], undisturbed: Undisturbed, tmp_path: Path
) -> None:
    for hit in hits_to_try(opening_hits.get(point, 0)):
        runs_dir, ended = kill_at(point, hit, lambda name: shutil.copytree(wreck, tmp_path / name))
        open_and_finish(runs_dir, ended.acknowledged, undisturbed)


def test_opening_killed_at_every_step_in_turn_converges_with_one_note_of_the_crash(
    wreck: Path, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    runs_dir = tmp_path / "runs"
    shutil.copytree(wreck, runs_dir)
    for point in OPENING:
        drive(runs_dir, f"{point}:1")
    paths = RunPaths(runs_dir / "run-1")
    assert not paths.crash(2).exists()
    open_and_finish(runs_dir, frozenset(), undisturbed)
    assert paths.crash(1).exists()
