import errno
import os
from pathlib import Path

import pytest

from labrunner.errors import StoreError
from labrunner.files import durable


def test_replace_leaves_the_new_content_and_no_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    durable.replace(path, b"one", point="status")
    durable.replace(path, b"two", point="status")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["status.json"]


def test_append_knows_its_size_and_begins_where_the_file_ended(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"12345")
    file = durable.open_append(path)
    file.append(b"678")
    file.sync()
    assert file.size == 8
    file.close()
    assert path.read_bytes() == b"12345678"


def test_append_goes_on_after_a_short_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows"
    path.touch()
    file = durable.open_append(path)
    whole_write = os.write
    # A write that is cut short is the kernel's choice.
    monkeypatch.setattr(os, "write", lambda fd, data: whole_write(fd, bytes(data)[:3]))
    file.append(b"1234567890")
    monkeypatch.undo()
    file.close()
    assert path.read_bytes() == b"1234567890"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EIO, "input/output error"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.ENAMETOOLONG, "file name too long"),
    ],
)
def test_a_failed_sync_names_the_file_and_the_reason_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    path = tmp_path / "rows"
    path.touch()
    file = durable.open_append(path)
    calls: list[int] = []

    def fail(fd: int) -> None:
        calls.append(fd)
        raise OSError(code, os.strerror(code))

    # Disks that fail to order are in tests/crash; here it is about the message.
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StoreError) as caught:
        file.sync()
    monkeypatch.undo()
    file.close()
    assert str(caught.value) == f"syncing {path}: {str(caught.value).split(': ', 1)[1]}"
    assert words in str(caught.value)
    assert len(calls) == 1


def test_a_real_full_disk_is_told_in_words() -> None:
    with pytest.raises(StoreError, match="writing to /dev/full: the disk is full"):
        durable.open_append(Path("/dev/full")).append(b"x")


def test_writing_again_keeps_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    content = os.urandom(3 * durable.CHUNK + 17)
    path.write_bytes(content)
    durable.write_again(path, 5)
    assert path.read_bytes() == content
