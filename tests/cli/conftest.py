from pathlib import Path

import pytest

from tests.kit.cli.crashed import crash


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A run that died with slot 0 committed, slot 1 under way, and two finished behind it."""
    return crash(tmp_path)
