"""What preflight tries, what it remembers, and what it tells once."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.sandbox.docker.engine.labels import PROBE
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.docker.probing import probe_cache
from labrunner.sandbox.docker.probing.container_check import SLOW_S, check_probe
from labrunner.sandbox.docker.probing.probe import ProbeOutcome
from labrunner.sandbox.door import Check, Demands
from tests.kit.builders import make_sandbox
from tests.kit.docker.testimages import DASH, Images


def row(checks: tuple[Check, ...], name: str) -> Check:
    (found,) = (check for check in checks if check.name.startswith(name))
    return found


async def created(maker: DockerMaker, since: float) -> int:
    """How many containers were made since."""
    path = f"events?since={since:.9f}&until={time.time():.9f}&filters=%7B%22event%22%3A%5B%22create%22%5D%7D"
    return len([event async for event in maker.engine._connection().lines("GET", path)])


@pytest.mark.parametrize("other", ["demands", "image", "folder"])
async def test_a_proof_is_remembered_for_the_very_same_question(
    maker: DockerMaker, ash: str, images: Images, tmp_path: Path, other: str
) -> None:
    plan = make_sandbox(kind="docker", image=ash)
    demands = Demands(place=tmp_path)
    first = row(await maker.preflight(plan, demands), "container of")
    assert (first.passed, "tried within" in first.message) == (True, False)

    began = time.time()
    second = row(await DockerMaker(maker.engine).preflight(plan, demands), "container of")
    assert (second.passed, "tried within the last day" in second.message) == (True, True)
    assert await created(maker, began) == 0

    if other == "demands":
        demands = replace(demands, fresh_grader=True)
    elif other == "image":
        plan = replace(plan, image=await images(DASH))
    else:
        (tmp_path / "elsewhere").mkdir()
        demands = replace(demands, place=tmp_path / "elsewhere")
    third = row(await maker.preflight(plan, demands), "container of")
    assert (third.passed, "tried within" in third.message) == (True, False)
    assert await created(maker, began) > 0


async def test_doctor_tries_anew_and_old_or_failed_proofs_do_not_count(
    maker: DockerMaker, ash: str, tmp_path: Path
) -> None:
    plan = make_sandbox(kind="docker", image=ash)
    demands = Demands(place=tmp_path, agent_user="nobody-has-this-name")
    for _ in range(2):
        assert not row(await maker.preflight(plan, demands), "container of").passed
    demands = Demands(place=tmp_path)
    await maker.preflight(plan, demands)
    anew = row(await DockerMaker(maker.engine, trusts_proofs=False).preflight(plan, demands), "container of")
    assert "tried within" not in anew.message
    for proof in (tmp_path / "cache" / "labrunner" / "proofs").iterdir():
        long_ago = time.time() - probe_cache.KEPT_S - 1
        os.utime(proof, (long_ago, long_ago))
    assert "tried within" not in row(await maker.preflight(plan, demands), "container of").message


async def test_the_engine_is_told_of_once_whatever_its_disk_does_meanwhile(
    maker: DockerMaker, ash: str, tmp_path: Path
) -> None:
    plan = make_sandbox(kind="docker", image=ash)
    first = await maker.preflight(plan, Demands(place=tmp_path))
    filler = Path((await maker.engine.facts()).root_dir) / "filler"
    try:
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 300_000_000)
        second = await maker.preflight(plan, Demands(place=tmp_path, fresh_grader=True))
    finally:
        filler.unlink(missing_ok=True)
    assert row(first, "docker disk") == row(second, "docker disk")
    assert await maker.engine.list(PROBE) == ()


def test_a_slow_look_at_changes_is_told_with_what_helps() -> None:
    plan = make_sandbox(kind="docker", image="large:1")
    (quick,) = check_probe(plan, ProbeOutcome(changes_s=SLOW_S), is_remembered=False)
    assert quick.passed
    _, slow = check_probe(plan, ProbeOutcome(changes_s=8.25), is_remembered=False)
    assert (slow.passed, slow.severity) == (False, "warning")
    assert "8.2 s" in slow.message
    assert "on_system_change: ignore" in slow.message
