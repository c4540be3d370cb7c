"""Layers are read as what a stranger wrote: nothing of one can come to lie outside its folder."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard

from labrunner.files.layering.layerfile import (
    HEAD,
    LayerHead,
    LayerTooLarge,
    read_path,
    spell_path,
    write_layer,
)
from labrunner.files.layering.layerreading import open_layer, stream_tar
from labrunner.files.layering.memberreading import LayerRefused

Forge = Callable[[tarfile.TarFile], None]


def add(archive: tarfile.TarFile, name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, 0o755
    data = b"content" if kind == tarfile.REGTYPE else b""
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def forge(path: Path, *entries: tuple[str, bytes, str], head: object = None) -> Path:
    """A layer with anything in it, as somebody who is not `lab` could write it."""
    told = msgspec.json.encode(head or {"schema_version": "layer_v1", "folder": "/app", "image": "sha256:0"})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        first = tarfile.TarInfo(HEAD)
        first.size = len(told)
        archive.addfile(first, io.BytesIO(told))
        for name, kind, target in entries:
            add(archive, name, kind, target)
    path.write_bytes(zstandard.compress(packed.getvalue()))
    return path


DIR, REG, SYM, LNK = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
WORK = ("work", DIR, "")
HOSTILE = {
    "climbs out": [WORK, ("work/../etc/passwd", REG, "")],
    "climbs in its middle": [WORK, ("work/a", DIR, ""), ("work/a/../../x", REG, "")],
    "has an absolute name": [WORK, ("/usr/bin/python3", REG, "")],
    "lies beside the work": [WORK, ("etc/passwd", REG, "")],
    "goes through a link of its own": [WORK, ("work/way", SYM, "/usr/bin"), ("work/way/python3", REG, "")],
    "goes through a link of the image": [WORK, ("work/way/python3", REG, "")],
    "swaps a folder for a link": [WORK, ("work/a", DIR, ""), ("work/a", SYM, "/usr"), ("work/a/x", REG, "")],
    "is a link itself": [("work", SYM, "/usr")],
    "links to a file of the system": [WORK, ("work/shadow", LNK, "/etc/shadow")],
    "links to what climbs out": [WORK, ("work/shadow", LNK, "work/../../etc/shadow")],
    "links through a link": [WORK, ("work/way", SYM, "/etc"), ("work/shadow", LNK, "work/way/shadow")],
    "links to a link": [WORK, ("work/way", SYM, "/etc/shadow"), ("work/shadow", LNK, "work/way")],
    "is a disk": [WORK, ("work/disk", tarfile.BLKTYPE, "")],
    "is a device": [WORK, ("work/mem", tarfile.CHRTYPE, "")],
    "is unheard of": [WORK, ("work/odd", b"Z", "")],
    "is given twice": [WORK, ("work/a", REG, ""), ("work/a", REG, "")],
    "makes a folder of a file": [WORK, ("work/a", REG, ""), ("work/a", DIR, ""), ("work/a/b", REG, "")],
    "is too deep": [WORK, ("work/" + "/".join("d" * 200 for _ in range(20)), DIR, "")],
}
HEADS: dict[str, dict[str, object]] = {
    "removes outside": {"folder": "/app", "removed": ["../usr/bin"]},
    "removes by an absolute path": {"folder": "/app", "removed": ["/usr/bin"]},
    "removes spelled-out steps": {"folder": "/app", "removed": ["\\x2e\\x2e/usr"]},
    "is of the root": {"folder": "/"},
    "is of no path": {"folder": "app"},
    "is of a path that climbs": {"folder": "/app/../usr"},
    "is of another version": {"folder": "/app", "schema_version": "layer_v2"},
    "says more": {"folder": "/app", "and": "more"},
}


def read_all(path: Path) -> bytes:
    with open_layer(path) as reader:
        return b"".join(stream_tar(reader))


@pytest.mark.parametrize("what", HOSTILE)
def test_a_layer_is_refused_that(tmp_path: Path, what: str) -> None:
    forged = forge(tmp_path / "layer", *HOSTILE[what])
    with pytest.raises(LayerRefused):
        read_all(forged)


@pytest.mark.parametrize("what", HEADS)
def test_a_head_is_refused_that(tmp_path: Path, what: str) -> None:
    forged = forge(tmp_path / "layer", WORK, head={"schema_version": "layer_v1", "image": "", **HEADS[what]})
    with pytest.raises(LayerRefused):
        read_all(forged)


def test_links_that_lead_out_are_kept_and_nothing_goes_through_them(tmp_path: Path) -> None:
    entries = [WORK, ("work/out", SYM, "/usr/bin"), ("work/d", DIR, ""), ("work/d/up", SYM, "../../etc")]
    with tarfile.open(fileobj=io.BytesIO(read_all(forge(tmp_path / "layer", *entries)))) as plain:
        found = [(member.name, member.linkname) for member in plain]
    assert found == [
        ("app", ""),
        ("app/out", "/usr/bin"),
        ("app/d", ""),
        ("app/d/up", "../../etc"),
    ]


def test_nothing_but_kind_rights_owner_time_and_link_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "layer"
    packed = io.BytesIO()
    told = msgspec.json.encode({"schema_version": "layer_v1", "folder": "/app", "image": ""})
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        first = tarfile.TarInfo(HEAD)
        first.size = len(told)
        archive.addfile(first, io.BytesIO(told))
        add(archive, "work", DIR)
        member = tarfile.TarInfo("work/program")
        member.mode, member.uname = 0o104755, "somebody"
        member.pax_headers = {"SCHILY.xattr.security.capability": "all", "mtime": "12.345678901"}
        archive.addfile(member)
    path.write_bytes(zstandard.compress(packed.getvalue()))
    with tarfile.open(fileobj=io.BytesIO(read_all(path))) as plain:
        found = plain.getmember("app/program")
    assert (found.mode, found.uname, found.pax_headers) == (0o4755, "", {"mtime": "12.345678901"})


@pytest.mark.parametrize("time", ["nan", "inf", "1e99", "12.5 "])
def test_a_layer_whose_times_are_none_is_refused(tmp_path: Path, time: str) -> None:
    packed = io.BytesIO(
        zstandard.ZstdDecompressor().decompress(forge(tmp_path / "l", WORK).read_bytes(), 1 << 20)
    )
    with tarfile.open(fileobj=packed, mode="a", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("work/late")
        member.pax_headers = {"mtime": time}
        archive.addfile(member)
    (tmp_path / "l").write_bytes(zstandard.compress(packed.getvalue()))
    with pytest.raises(LayerRefused):
        read_all(tmp_path / "l")


def test_an_archive_that_begins_with_anything_else_is_no_layer(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        add(archive, "layer.txt")
    (tmp_path / "layer").write_bytes(zstandard.compress(packed.getvalue()))
    with pytest.raises(LayerRefused, match="does not begin as layers do"):
        read_all(tmp_path / "layer")


@pytest.mark.parametrize("end", [10, -10])
def test_a_layer_that_was_cut_off_is_refused(tmp_path: Path, end: int) -> None:
    path = forge(tmp_path / "layer", WORK, *((f"work/{n}", REG, "") for n in range(300)))
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(LayerRefused):
        read_all(path)


def test_a_layer_holds_no_more_than_it_may_and_is_not_there_then(tmp_path: Path) -> None:
    path, head = tmp_path / "layer", LayerHead(folder="/app", image="")
    top, big = tarfile.TarInfo(""), tarfile.TarInfo("big")
    top.type, big.size = DIR, 5

    def write(most: tuple[int, int]) -> None:
        with write_layer(path, head, most) as writer:
            writer.add(top)
            writer.add(big, io.BytesIO(b"12345"))

    for most in ((100, 1), (4, 100)):
        with pytest.raises(LayerTooLarge):
            write(most)
        assert list(tmp_path.iterdir()) == []
    write((5, 2))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["plain", "caf\udce9", "back\\slash", "\\xe9", "é\udcff\\x41", "new\nline"])
def test_any_path_can_be_told_and_read_again(name: str) -> None:
    assert read_path(msgspec.json.decode(msgspec.json.encode(spell_path(name)))) == name
