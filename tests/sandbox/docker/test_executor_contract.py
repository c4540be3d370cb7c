"""What every executor promises, tried on those whose sandboxes are containers."""

from pathlib import Path

import pytest

from tests.kit.executor.contract import *  # noqa: F403 - collected from here
from tests.kit.executor.crews import CREWS, NEED_ENGINE, Crew


@pytest.fixture(params=NEED_ENGINE)
def crew_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def crew(crew_name: str, ash: str, tmp_path: Path) -> Crew:
    return CREWS[crew_name](run_dir=tmp_path / "run", image=ash)
