"""Nodes that tell of their own failure: who is to blame, and what becomes of the node."""

from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.executor.cluster.losses import MOST
from labrunner.executor.cluster.onnode.nodecall import BUG, DISK
from labrunner.executor.cluster.onnode.nodeplace import VARIABLE
from labrunner.executor.cluster.tidings import NodeFailure, encode
from labrunner.records.cause import Cause
from labrunner.records.completion import Cancelled, Failed, Graded
from tests.kit.executor.madeowners import QUICK
from tests.kit.executor.nearnodes import NearCrew
from tests.kit.trial.attempting import HeardNotes


@pytest.fixture
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NearCrew:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nodes"))
    return NearCrew(run_dir=tmp_path / "run")


async def test_a_bug_on_a_node_is_this_programs_own_error_and_its_worker_goes_on(crew: NearCrew) -> None:
    told = NodeFailure(reason=BUG, message="carrying it out: 'x'", traceback="Traceback: KeyError: 'x'")
    crew.cluster.instead.append(encode(told))
    executor = crew.executor()
    broken = await executor.carry_out(crew.assignment, HeardNotes())
    assert isinstance(broken.end, Failed)
    assert (broken.end.cause, broken.end.reason) == (Cause.RUNNER, BUG)
    assert broken.timing.traceback == "Traceback: KeyError: 'x'"
    assert broken.timing.message == "node near: carrying it out: 'x'"
    done = await executor.carry_out(replace(crew.assignment, attempt=2), HeardNotes())
    assert isinstance(done.end, Graded)
    assert len(crew.cluster.workers) == 1
    await executor.close()


FULL = encode(NodeFailure(reason=DISK, message="/var/tmp: no space left on device"))


async def test_a_node_whose_disk_is_full_gets_nothing_new_until_it_was_tried_again(crew: NearCrew) -> None:
    crew.cluster.instead.append(FULL)
    executor = crew.executor(replace(QUICK, again_s=0.5))
    cut_off = await executor.carry_out(crew.assignment, HeardNotes())
    assert cut_off.end == Cancelled(reason=DISK)
    assert executor.places == 0
    assert executor.trouble == "no node can be used: near: /var/tmp: no space left on device"
    done = await executor.carry_out(replace(crew.assignment, attempt=2), HeardNotes())
    assert isinstance(done.end, Graded)
    assert (executor.places, executor.trouble) == (2, "")
    assert len(crew.cluster.workers) == 1
    await executor.close()


async def test_a_trial_that_fills_disk_after_disk_is_at_fault_itself(crew: NearCrew) -> None:
    crew.cluster.instead += [FULL] * MOST
    executor = crew.executor(QUICK)
    ends = [(await executor.carry_out(crew.assignment, HeardNotes())).end for _ in range(MOST)]
    assert ends[:-1] == [Cancelled(reason=DISK)] * (MOST - 1)
    assert isinstance(ends[-1], Failed)
    assert (ends[-1].cause, ends[-1].reason) == (Cause.SANDBOX, DISK)
    assert f"{MOST} times in a row" in ends[-1].message
    await executor.close()


async def test_a_node_says_how_much_room_its_disk_has(crew: NearCrew) -> None:
    executor = crew.executor()
    (disk,) = [check for check in await executor.preflight() if check.name == "disk"]
    assert (disk.passed, disk.node) == (True, "near")
    assert "GB free" in disk.message
    await executor.close()


async def test_a_node_without_the_room_that_is_asked_for_is_not_used(crew: NearCrew) -> None:
    executor = replace(crew, min_free_disk_gb=1e9).executor(replace(QUICK, again_s=3600.0))
    (disk,) = [check for check in await executor.preflight() if check.name == "disk"]
    assert not disk.passed
    await executor.open(lambda: None)
    assert executor.places == 0
    assert "near: disk: " in executor.trouble
    assert "min_free_disk_gb asks for 1e+09" in executor.trouble
    await executor.close()
