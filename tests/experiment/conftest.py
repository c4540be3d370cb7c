from pathlib import Path

import pytest

from tests.kit.experiment.authoring import Bench, enter


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return enter(tmp_path, monkeypatch)
