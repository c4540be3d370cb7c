"""Every agent of the catalogue, as its registry has it, plays three tasks against a scripted model."""

from pathlib import Path

import pytest

from labrunner.experiment.agents.catalogue import FILES
from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.agents.playing import check_play
from tests.kit.agents.roles import ROLES


def test_every_agent_of_the_catalogue_has_a_role() -> None:
    assert set(ROLES) == set(FILES)


@pytest.mark.agents
@pytest.mark.timeout(1800)
@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
@pytest.mark.parametrize("agent", sorted(ROLES))
def test_an_agent_plays_three_tasks_in_bubblewrap(agent: str, tmp_path: Path) -> None:
    check_play(agent, tmp_path, {"kind": "bubblewrap"})
