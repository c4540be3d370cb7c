"""Work in a folder of an image, as a page tells it."""

import io
import tarfile
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.files.layering.layerfile import LayerHead, write_layer
from labrunner.files.layering.layernote import LAYER
from labrunner.records.encoding.canonical import digest_bytes
from labrunner.view.left.changetelling import ChangeTeller
from labrunner.view.left.layertelling import find_in_layer, tell_layer

FILES = {"a.py": b"print(1)\n", "deep/<b>.txt": b"<script>\n", "deep/data": b"\0\1"}


def write(path: Path) -> Path:
    head = LayerHead(folder="/testbed", image="img", removed=("old.py", "gone/x"))
    with write_layer(path, head, (1 << 20, 100)) as writer:
        for name in ("", "deep"):
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            writer.add(member)
        for name, data in FILES.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755 if name.endswith(".py") else 0o644
            writer.add(member, io.BytesIO(data))
        link = tarfile.TarInfo("out")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        writer.add(link)
    return path


def test_what_was_written_and_removed_is_told_with_content(tmp_path: Path) -> None:
    told = tell_layer(write(tmp_path / LAYER), ChangeTeller())
    assert (told["folder"], told["left_out"]) == ("/testbed", 0)
    changes = told["changes"]
    assert isinstance(changes, list)
    found = {change.path: change for change in changes}
    assert {path: (change.how, change.kind) for path, change in found.items()} == {
        "old.py": ("deleted", "file"),
        "gone/x": ("deleted", "file"),
        "a.py": ("written", "program"),
        "deep/<b>.txt": ("written", "file"),
        "deep/data": ("written", "file"),
        "out": ("written", "link"),
    }
    assert found["a.py"].patch == "@@ -1,0 +1,1 @@\n+print(1)"
    assert found["deep/data"].why_none == "no text"
    assert found["out"].patch == "@@ -1,0 +1,1 @@\n+a link to /etc/passwd"
    assert found["out"].digest is None


def test_a_file_of_it_is_found_by_digest(tmp_path: Path) -> None:
    path = write(tmp_path / LAYER)
    for name, data in FILES.items():
        found = find_in_layer(path, digest_bytes(data))
        assert found is not None
        with found[1] as copy:
            assert (found[0], copy.read()) == (f"/testbed/{name}", data)
    assert find_in_layer(path, digest_bytes(b"another")) is None


def test_what_is_no_layer_says_so(tmp_path: Path) -> None:
    path = tmp_path / LAYER
    assert tell_layer(path, ChangeTeller())["note"] == "it is not there any more"
    path.write_bytes(write(tmp_path / "other").read_bytes()[:100])
    told = tell_layer(path, ChangeTeller())
    assert (told["changes"], "can't be read" in str(told["note"])) == ((), True)
    with pytest.raises(InputError, match="can't be read"):
        find_in_layer(path, digest_bytes(b""))
