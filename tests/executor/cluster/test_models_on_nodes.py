"""Runs on a real cluster whose agents have a model and hosts: each node has a gateway of its own."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labrunner.records.facts.model_call import CallRow
from tests.kit.executor.rayclusters import RayCluster, running_three
from tests.kit.gateway.experiments import ASK_ONCE, CLIENT
from tests.kit.gateway.killable import Killable
from tests.kit.gateway.provider import KEY, Provider, run_provider

pytestmark = [
    pytest.mark.bwrap,
    pytest.mark.timeout(400),  # a cluster is a dozen processes of Python
]

NAMES = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with running_three() as made:
        yield made


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


def on_nodes(cluster: RayCluster, size: int, per_node: int = 2) -> str:
    plan = f"kind: ray, address: '{cluster.address}', per_node: {per_node}, labels: {{of{size}: y}}"
    return f"executor: {{{plan}}}\n"


def make(folder: Path, url: str, more: str, **changes: Any) -> Killable:
    lab = replace(
        Killable(folder=folder, url=url, sandbox="{kind: bubblewrap}", more=more, agent=ASK_ONCE), **changes
    )
    lab.write()
    return lab


def nodes_of(lab: Killable) -> set[str | None]:
    lines = (lab.run / "facts/timings.jsonl").read_bytes().splitlines()
    return {each.get("node") for line in lines for each in json.loads(line)["attempts"]}


def said(calls: list[CallRow]) -> list[tuple[str, int, str, float | None]]:
    """What of calls is the same wherever they were made."""
    return sorted((call.ids.task_id, call.ordinal, call.end, call.cost_usd) for call in calls)


async def test_models_on_nodes_give_the_same_digest_and_calls_as_here(
    tmp_path: Path, cluster: RayCluster, provider: Provider
) -> None:
    here = make(tmp_path / "here", provider.url, "", tasks=6)
    await here.finish()
    for size in (1, 3):
        there = make(tmp_path / f"on{size}", provider.url, on_nodes(cluster, size), tasks=6)
        await there.finish()
        assert there.read_chain() == here.read_chain()
        assert nodes_of(there) == set(NAMES[:size])
        assert said(there.calls()) == said(here.calls())
    assert {got.headers["Authorization"] for got in provider.got} == {f"Bearer {KEY}"}


SCRIPT = {"answers": [{"text": "forty-two", "input_tokens": 12, "output_tokens": 3}]}


async def test_a_script_answers_on_nodes_as_here(tmp_path: Path, cluster: RayCluster) -> None:
    chains = set()
    for name, more in (("here", ""), ("there", on_nodes(cluster, 1))):
        lab = make(tmp_path / name, "http://nobody.invalid", more, tasks=3, key="null")
        (lab.folder / "answers.json").write_text(json.dumps(SCRIPT))
        path = lab.folder / "experiment.yaml"
        path.write_text(
            path.read_text().replace('base_url: "http://nobody.invalid/v1"', "script: answers.json")
        )
        await lab.finish()
        assert [call.end for call in lab.calls()] == ["answered"] * 3
        assert all("forty-two" in answer for answer in lab.answers())
        chains.add(lab.read_chain())
    assert len(chains) == 1


TALK = (
    CLIENT
    + """
said = [ask(), ask(stream=True)]
said.append(ask(messages=[{"role": "user", "content": said[0]}]))
open("answer.txt", "w").write("\\n".join(said))
"""
)


async def test_recorded_calls_answer_on_nodes_and_the_provider_is_asked_nothing(
    tmp_path: Path, cluster: RayCluster, provider: Provider
) -> None:
    here = make(tmp_path / "here", provider.url, "", tasks=3, agent=TALK)
    await here.finish()
    provider.got.clear()
    more = on_nodes(cluster, 3, per_node=1)
    there = make(
        tmp_path / "there", provider.url, more, tasks=3, agent=TALK, words=("--replay", str(here.run))
    )
    await there.finish()
    assert provider.got == []
    assert there.read_chain() == here.read_chain()
    assert nodes_of(there) == set(NAMES)
    assert {call.replayed for call in there.calls()} == {call.call_id for call in here.calls()}
    assert list(cluster.nodes_dir.glob("*/runs/*/tapes/*/*")) == []
