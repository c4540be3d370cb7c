from collections.abc import Iterator
from pathlib import Path

import pytest

from labrunner.cli.main import run
from labrunner.store.layout import RunPaths
from tests.kit.cli.calling import Answer
from tests.kit.crash.damaging import CRASHED, FINISHED, Lab, Masters, make_masters
from tests.kit.crash.driving import Driver, open_driver


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with open_driver() as opened:
        yield opened


@pytest.fixture(scope="session")
def masters(tmp_path_factory: pytest.TempPathFactory) -> Masters:
    return make_masters(tmp_path_factory.mktemp("masters"))


@pytest.fixture
def runs_dir(masters: Masters, tmp_path: Path) -> Path:
    return masters.copy_to(tmp_path)


@pytest.fixture
def crashed(runs_dir: Path) -> RunPaths:
    return RunPaths(runs_dir / CRASHED)


@pytest.fixture
def finished(runs_dir: Path) -> RunPaths:
    return RunPaths(runs_dir / FINISHED)


@pytest.fixture
def lab(runs_dir: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Run a command on the copied runs. What would be a traceback fails the test: nothing is caught here."""
    monkeypatch.chdir(runs_dir.parent)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words: str) -> Answer:
        capfd.readouterr()
        code = run([*words, "--log-dir", str(runs_dir)])
        told = capfd.readouterr()
        return Answer(code, told.out, told.err)

    return call
