"""Work in a folder of an image, as a page tells it."""

import io
import tarfile
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.files.layering.layerfile import LayerHead, write_layer
from labrunner.files.layering.layernote import LAYER
from labrunner.records.encoding.canonical import digest_bytes
from labrunner.view.left.changetelling import MOST_CHANGES, ChangeTeller
from labrunner.view.left.layertelling import MOST_READ, find_in_layer, tell_layer

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
    assert (told["folder"], told["has_more"]) == ("/testbed", False)
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


def write_zeros(path: Path, *, size: int, count: int) -> Path:
    """A layer whose members cost much to read, and little to send."""
    with write_layer(path, LayerHead(folder="/testbed", image="img"), (1 << 40, 1 << 20)) as writer:
        top = tarfile.TarInfo("")
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        writer.add(top)
        for number in range(count):
            member = tarfile.TarInfo(f"{number:05}")
            member.size = size
            writer.add(member, io.BytesIO(bytes(size)))
    return path


def test_a_layer_is_read_no_further_than_a_page_tells(tmp_path: Path) -> None:
    path = write_zeros(tmp_path / LAYER, size=1 << 16, count=MOST_CHANGES + 200)
    packed = path.read_bytes()
    path.write_bytes(packed[: -len(packed) // 10])  # whoever reads on to here finds that it is broken
    told = tell_layer(path, ChangeTeller())
    assert isinstance(told["changes"], list)
    assert (len(told["changes"]), told["has_more"]) == (MOST_CHANGES, True)


def test_a_huge_file_of_a_layer_is_not_read(tmp_path: Path) -> None:
    path = write_zeros(tmp_path / LAYER, size=MOST_READ, count=1)
    path.write_bytes(path.read_bytes()[:-1000])
    told = tell_layer(path, ChangeTeller())
    assert (told["changes"], told["has_more"]) == ([], True)
    assert find_in_layer(path, digest_bytes(b"")) is None


def test_what_is_no_layer_says_so(tmp_path: Path) -> None:
    path = tmp_path / LAYER
    assert tell_layer(path, ChangeTeller())["note"] == "it is not there any more"
    path.write_bytes(write(tmp_path / "other").read_bytes()[:100])
    told = tell_layer(path, ChangeTeller())
    assert (told["changes"], "can't be read" in str(told["note"])) == ((), True)
    with pytest.raises(InputError, match="can't be read"):
        find_in_layer(path, digest_bytes(b""))
