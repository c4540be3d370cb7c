"""What policy does not keep of an attempt is gone, whatever it is."""

from pathlib import Path

import pytest

from labrunner.executor.door import Discard
from labrunner.executor.release import throw_away
from labrunner.files.layering.layernote import LAYER, LAYER_PART
from labrunner.sandbox.door import AttemptFolders

EVERY = {"workspace", LAYER, LAYER_PART, "logs", "out"}


@pytest.mark.parametrize(
    ("drop", "left"),
    [
        (Discard(workspace=True, logs=False), {"logs", "out"}),
        (Discard(workspace=False, logs=True), EVERY - {"logs"}),
    ],
)
async def test_work_goes_in_whichever_form_it_lies_there(
    tmp_path: Path, drop: Discard, left: set[str]
) -> None:
    for name in ("workspace", "logs", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    for name in (LAYER, LAYER_PART):
        (tmp_path / name).write_bytes(b"x")
    await throw_away(AttemptFolders(root=tmp_path), drop)
    assert {path.name for path in tmp_path.iterdir()} == left
