"""Everybody in a cluster is killed at random, with containers on two engines: nothing is lost or doubled.

`LAB_TORTURE_KILLS` and `LAB_TORTURE_SEED` say how often, and another course of things.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labrunner.errors import ExitCode
from tests.kit.cli.calling import lab
from tests.kit.crash.battle import ROLES, Battle, prepared

pytestmark = [pytest.mark.docker, pytest.mark.root, pytest.mark.crash]

OFTEN = ("worker", "worker", "worker", "coordinator", "coordinator", "coordinator", "node", "node", "raylet")
"""Once each role has had its turn. A head takes longest: all nodes are started again after it."""

QUICK = ("worker", "coordinator", "node")
"""Who is soon there again."""

NOTICED_S = 45
"""Thirty seconds without a word from the head, and an end in order."""


async def fight(battle: Battle, kills: int, roles: Iterator[str]) -> None:
    """Kill until there were enough, one run after another; each has to come to its end all the same."""
    chain, number, began = battle.run_here(), 0, time.monotonic()
    while battle.killed.total() < kills:
        battle.lived.clear()
        await carry_out(battle, f"killed-{number}", kills, roles)
        await battle.check(f"killed-{number}", chain)
        number += 1
    print(f"{dict(battle.killed)} in {number} runs, {time.monotonic() - began:.0f} s", flush=True)


def choose_roles(dice: random.Random) -> Iterator[str]:
    """Each role once in every twenty kills, and those that are soon there again in between."""
    while True:
        yield from dice.sample((*ROLES, *dice.choices(OFTEN, k=15)), k=20)


async def carry_out(battle: Battle, run_id: str, kills: int, roles: Iterator[str]) -> None:
    """A run to its end, with kills on the way."""
    battle.begin(run_id)
    while True:
        assert battle.runner is not None
        if battle.dice.random() < 0.8:  # else somebody dies before anything has begun
            await until_it_goes_on(battle, run_id)
        await asyncio.sleep(battle.dice.uniform(0, 3))
        if battle.runner.poll() is None and battle.killed.total() < kills:
            role = next(roles)
            await battle.kill(role)
            print(f"{time.strftime('%X')} {run_id}: {battle.killed.total()} kills, {role}", flush=True)
            continue
        code = await asyncio.to_thread(battle.runner.wait, 600)
        if code == 0:
            return
        told = battle.said(run_id).read_text()[-3000:]
        # Who dies while everything is still being tried out has the run refused, with nothing spent.
        is_refused = code == ExitCode.BAD_INPUT and "preflight: " in told
        assert code == -signal.SIGKILL or is_refused, f"{run_id} ended with {code}:\n{told}"
        battle.begin(run_id)


async def until_it_goes_on(battle: Battle, run_id: str) -> None:
    """Wait until another agent has begun, or another trial is committed, since we looked first."""
    assert battle.runner is not None
    before = battle.progress(run_id)
    async with asyncio.timeout(300):
        while battle.runner.poll() is None and battle.progress(run_id) == before:
            await asyncio.sleep(0.1)


@pytest.fixture
def seed() -> int:
    seed = int(os.environ.get("LAB_TORTURE_SEED", random.SystemRandom().randrange(10**6)))
    print(f"LAB_TORTURE_SEED={seed}")
    return seed


@pytest.mark.timeout(400)  # a cluster is a dozen processes of Python
async def test_a_worker_a_node_and_the_coordinator_die_and_nothing_is_lost_doubled_or_left(
    tmp_path: Path, seed: int
) -> None:
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    async with prepared(tmp_path / "w", ("n1", "n2"), tasks=12, seed=seed) as battle:
        await fight(battle, len(QUICK), iter(battle.dice.sample(QUICK, k=len(QUICK))))
    assert set(battle.killed) == set(QUICK)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_a_hundred_kills_of_everybody_lose_double_and_leave_nothing(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    kills = int(os.environ.get("LAB_TORTURE_KILLS", "100"))
    async with prepared(tmp_path / "w", ("n1", "n2", "n3"), tasks=60, seed=seed) as battle:
        await fight(battle, kills, choose_roles(battle.dice))
    assert set(battle.killed) == set(ROLES)


@pytest.mark.torture
@pytest.mark.timeout(900)
async def test_runs_end_by_themselves_when_their_head_dies_and_go_on_there_and_here(
    tmp_path: Path, seed: int
) -> None:
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    async with prepared(tmp_path / "w", ("n1", "n2"), tasks=12, seed=seed) as battle:
        chain = battle.run_here()
        runners = {run_id: battle.begin(run_id) for run_id in ("there", "here-then")}
        for run_id in runners:
            await until_it_goes_on(battle, run_id)
        await battle.look_who_lives()
        assert battle.lived
        died_at = time.monotonic()
        await asyncio.to_thread(battle.cluster.nodes["n1"].stop)
        for run_id, runner in runners.items():
            code = await asyncio.to_thread(runner.wait, 100)
            took, told = time.monotonic() - died_at, battle.said(run_id).read_text()
            assert (code, took < NOTICED_S) == (ExitCode.RUN_FAILED, True), (
                f"{code} after {took:.0f} s: {told}"
            )
            status = battle.read_status(run_id)
            assert status["status"] == "error"
            assert "the cluster's head has not answered for 30 s" in status["error"]["message"]
        await asyncio.to_thread(battle.cluster.nodes["n2"].stop)
        await asyncio.to_thread(battle.start_nodes)
        assert await asyncio.to_thread(battle.begin("there").wait, 300) == 0, battle.said("there").read_text()
        await battle.check("there", chain)
        words = ("continue", "here-then", "--executor", "local")
        here = lab(*words, cwd=battle.folder, env=battle.engine_here(), timeout=300)
        assert here.code == 0, here.err
        assert battle.read_commits("here-then")[-1]["chain"] == chain
