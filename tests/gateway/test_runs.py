"""Runs whose agents have a model and nothing else, in sandboxes of every kind without a daemon."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.gateway.experiments import Ran, Setting, run
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import KEY, Provider, run_provider

BWRAP = pytest.param(
    "bubblewrap",
    marks=[pytest.mark.bwrap, pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")],
)
kinds = pytest.mark.parametrize("kind", [BWRAP, "process"])


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def read_rows(ran: Ran, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ran.paths.root / name).read_bytes().splitlines()]


@kinds
async def test_an_agent_asks_its_model_and_what_it_used_is_known(
    tmp_path: Path, provider: Provider, kind: str
) -> None:
    ran = await run(Setting(kind=kind, url=provider.url, tasks=3).make(), tmp_path)
    trials = read_rows(ran, "facts/trials.jsonl")
    assert [row["verdict"] for row in trials] == ["pass"] * 3
    assert {got.headers["Authorization"] for got in provider.got} == {f"Bearer {KEY}"}
    for task in range(3):
        [call] = ran.calls(task)
        assert (call.end, call.provider, call.cost_usd) == ("answered", "main", 0.00042)
    timing = read_rows(ran, "facts/timings.jsonl")[0]["attempts"][0]
    assert (timing["usage"]["tokens"], timing["usage"]["requests"]) == (150, 1)
    assert timing["usage"]["cost_usd"] == 0.00042
    assert timing["limits"]["reach"] == ("planted" if kind == "bubblewrap" else "loopback")
    assert find_daemons(ran.paths.root) == []
