"""Layers of attempts that came to no end: nothing unsearched of them is kept."""

import io
import tarfile
from pathlib import Path

import pytest

from labrunner.files.layering.layerfile import LayerHead, write_layer
from labrunner.files.layering.layernote import LAYER, LAYER_PART
from labrunner.files.layering.layerreading import open_layer
from labrunner.files.strangers.masking import Masker, make_masker
from labrunner.trial.collecting.cut_off import redact_cancelled, redact_cut_off

SECRET = "tell-nobody-about-it"
MASKER = make_masker({"KEY": SECRET})


def write(path: Path) -> None:
    with write_layer(path, LayerHead(folder="/app", image="img"), (1 << 20, 100)) as writer:
        top, note = tarfile.TarInfo(""), tarfile.TarInfo("note")
        top.type, note.size = tarfile.DIRTYPE, len(SECRET)
        writer.add(top)
        writer.add(note, io.BytesIO(SECRET.encode()))


@pytest.mark.parametrize("masker", [MASKER, make_masker({})], ids=["with secrets", "without"])
@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_half_a_layer_is_no_evidence(tmp_path: Path, masker: Masker, is_cancelled: bool) -> None:
    write(tmp_path / LAYER_PART)
    if is_cancelled:
        await redact_cancelled(tmp_path, masker)
    else:
        redact_cut_off(tmp_path, masker)
    assert list(tmp_path.iterdir()) == []


def test_a_layer_is_evidence_without_its_secrets(tmp_path: Path) -> None:
    write(tmp_path / LAYER)
    assert redact_cut_off(tmp_path, MASKER).masked == {LAYER: 1}
    with open_layer(tmp_path / LAYER) as reader:
        [_, content] = [content.read() if content else b"" for _, content in reader.entries()]
    assert len(content) == len(SECRET)
    assert SECRET.encode() not in content


def test_a_layer_that_cant_be_searched_goes(tmp_path: Path) -> None:
    (tmp_path / LAYER).write_bytes(b"no layer: " + SECRET.encode())
    found = redact_cut_off(tmp_path, MASKER)
    assert list(tmp_path.iterdir()) == []
    assert set(found.dropped) == {LAYER}
