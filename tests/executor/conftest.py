from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.executor.crews import CREWS, NEED_NONE, Crew


@pytest.fixture(params=NEED_NONE)
def crew_name(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    works, why = works_here()
    if "bubblewrap" in name and not works:
        pytest.skip(why)
    return name


@pytest.fixture
def crew(crew_name: str, tmp_path: Path) -> Crew:
    return CREWS[crew_name](run_dir=tmp_path / "run")
