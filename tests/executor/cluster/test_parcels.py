"""Folders that travel: whatever a sandbox built arrives as it was, and nothing lands anywhere else."""

import os
import stat
from pathlib import Path

import msgspec
import pytest

from labrunner.executor.cluster.parcels import PIECE, BadParcel, Unpacking, pack, pack_bytes, pack_file
from labrunner.files.strangers.sealing import digest_tree


def send(pieces: list[bytes], target: Path) -> None:
    target.mkdir()
    unpacking = Unpacking(target)
    try:
        for piece in pieces:
            unpacking.take(piece)
        unpacking.finish()
    finally:
        unpacking.close()


def test_a_hostile_tree_arrives_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "deep" / "er" / "program").write_text("#!/bin/sh\n")
    (source / "deep" / "er" / "program").chmod(0o755)
    (source / "deep" / "out").symlink_to("/etc/passwd")
    (source / "dangling").symlink_to("nowhere")
    os.mkfifo(source / "pipe")
    Path(os.fsdecode(os.fsencode(source) + b"/\xff\xfe name")).write_text("bytes")
    (source / "large").write_bytes(os.urandom(3 * PIECE + 17))
    (source / "closed").mkdir()
    (source / "closed" / "file").write_text("x")
    (source / "closed").chmod(0)
    pieces = list(pack(source))
    assert all(len(piece) < 2 * PIECE + 4096 for piece in pieces)
    send(pieces, tmp_path / "target")
    assert digest_tree(tmp_path / "target") == digest_tree(source)
    assert os.readlink(tmp_path / "target" / "deep" / "out") == "/etc/passwd"
    assert stat.S_ISFIFO((tmp_path / "target" / "pipe").stat().st_mode)
    sent, arrived = source / "deep" / "er" / "program", tmp_path / "target" / "deep" / "er" / "program"
    assert (arrived.stat().st_mode, arrived.stat().st_mtime_ns) == (
        sent.stat().st_mode,
        sent.stat().st_mtime_ns,
    )


def test_holes_stay_holes(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with (tmp_path / "source" / "sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 34)
        file.write(b"end")
    pieces = list(pack(tmp_path / "source"))
    assert sum(map(len, pieces)) < PIECE
    send(pieces, tmp_path / "target")
    facts = (tmp_path / "target" / "sparse").stat()
    assert facts.st_size == (1 << 34) + 3
    assert facts.st_blocks * 512 < PIECE


def test_trees_deeper_than_any_path_arrive(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    here = os.open(tmp_path / "source", os.O_RDONLY)
    for _ in range(900):
        os.mkdir("a-folder-with-a-name", dir_fd=here)
        inner = os.open("a-folder-with-a-name", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    send(list(pack(tmp_path / "source")), tmp_path / "target")
    assert digest_tree(tmp_path / "target") == digest_tree(tmp_path / "source") is not None


def test_names_that_are_left_out_do_not_travel(tmp_path: Path) -> None:
    for name in ("in", "workspace"):
        (tmp_path / "source" / name).mkdir(parents=True)
        (tmp_path / "source" / name / "file").write_text(name)
    send(list(pack(tmp_path / "source", {"workspace"})), tmp_path / "target")
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["in"]


def test_a_file_and_bytes_travel_under_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"packed")
    send(list(pack_file(tmp_path / "a.tar.gz", "a.tar.gz")), tmp_path / "one")
    send(list(pack_bytes(b"x" * (PIECE + 1), "whole")), tmp_path / "two")
    assert (tmp_path / "one" / "a.tar.gz").read_bytes() == b"packed"
    assert (tmp_path / "two" / "whole").stat().st_size == PIECE + 1


@pytest.mark.parametrize(
    "parts",
    [
        [["f", b"../out", 0o600, 0, 1], ["b", 0, b"x"]],
        [["f", b"/out", 0o600, 0, 1]],
        [["f", b"..", 0o600, 0, 1]],
        [["d", b"."]],
        [["l", b"", b"x"]],
        [["b", 0, b"x"]],
        [["u", 0o700]],
        [["d", b"open"]],
        [["z", 1]],
    ],
)
def test_pieces_that_no_packing_made_are_refused(tmp_path: Path, parts: list[list[object]]) -> None:
    with pytest.raises(BadParcel):
        send([msgspec.msgpack.encode(parts)], tmp_path / "target")
    assert not (tmp_path / "out").exists()


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    parts = [["l", b"way", os.fsencode(tmp_path / "victim")], ["f", b"way", 0o600, 0, 1], ["b", 0, b"x"]]
    with pytest.raises(OSError, match="way"):
        send([msgspec.msgpack.encode(parts)], tmp_path / "target")
    assert (tmp_path / "victim").read_text() == "mine"
