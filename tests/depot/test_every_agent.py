"""Every agent of the catalogue, as its registry has it, plays three tasks against a scripted model."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from labrunner.experiment.agents.catalogue import FILES
from labrunner.experiment.agents.known_agents import read_agent
from labrunner.experiment.authoring.problems import Problems
from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.agents.depots import open_depot
from tests.kit.agents.playing import check_play
from tests.kit.agents.roles import ROLES, SECOND_ROLES
from tests.kit.cli.calling import lab


def test_every_agent_of_the_catalogue_has_a_role() -> None:
    assert set(ROLES) == set(FILES) - {"noop", "oracle"}  # no agents at all


QUICK = ("codex", "gemini-cli")
"""The two that are fetched and started fastest: these are played whenever tests are run."""
EVERY = [
    agent if agent in QUICK else pytest.param(agent, marks=pytest.mark.agents) for agent in sorted(ROLES)
]


@pytest.fixture(scope="module", autouse=True)
def depot() -> Iterator[Path]:
    with open_depot() as place:
        yield place


def fetch(agent: str, folder: Path) -> None:
    """Install an agent. Without its registry there is nothing to test, which with CI set is a failure."""
    answer = lab("agents", "install", agent, cwd=folder, timeout=900)
    if answer.code != 0 and agent in QUICK and not os.environ.get("CI"):
        pytest.skip(f"{agent} can't be fetched here: {answer.err[-300:]}")
    assert answer.code == 0, answer.err


@pytest.mark.timeout(1800)
@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
@pytest.mark.parametrize("agent", EVERY)
def test_an_agent_plays_three_tasks_in_bubblewrap(agent: str, tmp_path: Path) -> None:
    fetch(agent, tmp_path)
    check_play(agent, tmp_path, {"kind": "bubblewrap"})


@pytest.mark.agents
@pytest.mark.timeout(1800)
@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
@pytest.mark.parametrize("agent", sorted(SECOND_ROLES))
def test_an_agent_that_speaks_two_dialects_plays_in_the_second_too(agent: str, tmp_path: Path) -> None:
    fetch(agent, tmp_path)
    check_play(agent, tmp_path, {"kind": "bubblewrap"}, SECOND_ROLES[agent])


def test_every_dialect_of_an_agent_is_played() -> None:
    played = {agent: {role.dialect} for agent, role in ROLES.items()}
    for agent, role in SECOND_ROLES.items():
        played[agent].add(role.dialect)
    for agent in ROLES:
        found = read_agent(agent, Path(), agent, Problems())
        assert found is not None
        assert set(found.part.dialects) == played[agent], agent
