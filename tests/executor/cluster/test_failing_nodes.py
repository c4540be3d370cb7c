"""Nodes that tell of their own failure: who is to blame, and what becomes of the node."""

from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.executor.cluster.onnode.nodecall import BUG
from labrunner.executor.cluster.onnode.nodeplace import VARIABLE
from labrunner.executor.cluster.tidings import NodeFailure, encode
from labrunner.records.cause import Cause
from labrunner.records.completion import Failed, Graded
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
