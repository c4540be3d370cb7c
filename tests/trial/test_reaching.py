"""Doors of an attempt that a runner before us let in."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from labrunner.experiment.resolved import ModelEntry, Network
from labrunner.experiment.schedule import Slot
from labrunner.gateway.recording.calljournal import read_calls, settle_calls
from labrunner.gateway.recording.opencalls import OPEN
from labrunner.sandbox.door import Phase, Reach
from labrunner.trial.assignment import Assignment, AttemptScene, TrialContext, set_scene
from labrunner.trial.reaching import PhaseDoors, Reaching
from tests.kit.builders import make_experiment, make_variant
from tests.kit.gateway.owning import LOOPBACK, ask, ignore, make_admit, make_hello, own
from tests.kit.gateway.provider import Provider, run_provider

AGENT = Phase(
    name="agent", argv=("true",), env={}, timeout_s=1, network=Network(mode="none", models=("main",))
)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        running.gate = asyncio.Event()  # nobody is answered
        yield running


def make_scene(run: Path) -> AttemptScene:
    variant = make_variant(models=(ModelEntry(name="main", dialect="openai"),))
    context = TrialContext(
        experiment=make_experiment(variants=(variant,)),
        run_id="r",
        trials_dir=run / "trials",
        host="h",
        secrets={},
    )
    slot = Slot(schedule_idx=0, variant_idx=0, task_idx=0, repl_idx=0)
    return set_scene(context, Assignment(token="t", slot=slot, trial_id="one", attempt=1))


async def test_a_call_that_was_under_way_for_a_runner_before_us_has_one_row(
    tmp_path: Path, provider: Provider
) -> None:
    scene, hello = make_scene(tmp_path), make_hello(tmp_path, provider.url)
    root = scene.folders.root
    async with own(tmp_path, hello) as before:
        port = (await before.listen(LOOPBACK)).ports[0]
        root.mkdir(parents=True)
        admit = make_admit(tmp_path, "t.agent", pid=os.getpid())
        await before.admit(msgspec.structs.replace(admit, folder=str(root)), ignore)
        asked = asyncio.ensure_future(ask(port))
        await provider.begun.wait()
    assert (root / OPEN).exists()
    async with own(tmp_path, hello) as owner:
        reach = Reach(way="planted")
        reaching = Reaching(scene=scene, owner=owner, reach=reach, ports=(1, 2), is_adopted=True)
        assert isinstance(reaching.furnish(AGENT).doors, PhaseDoors)  # its agent has ended: nobody opens them
        await reaching.close()
        assert settle_calls(root) == []
    await asyncio.wait([asked])
    assert [row.end for row in read_calls(root)] == ["client_gone"]
