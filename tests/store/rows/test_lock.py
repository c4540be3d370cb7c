import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labrunner.errors import RunLocked, StoreError
from labrunner.store.layout import RunPaths
from labrunner.store.rows.lock import acquire, holder, is_owned
from tests.kit.store.sample import make_run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return make_run(tmp_path)


@contextmanager
def owner(paths: RunPaths, how: str = "plain") -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Another process that owns the run, and the first line that it said."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/kit/store/holder.py"), str(paths.root), how],
        env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.communicate()


def test_a_run_that_nobody_owns_can_be_owned_again_and_again(paths: RunPaths) -> None:
    for _ in range(3):
        assert not is_owned(paths)
        with acquire(paths):
            assert is_owned(paths)
    assert holder(paths) is None


def test_second_owner_is_refused_within_a_second_and_told_who_holds_it(paths: RunPaths) -> None:
    with owner(paths) as (process, _):
        begun = time.monotonic()
        with pytest.raises(RunLocked) as caught, acquire(paths):
            pass
        assert time.monotonic() - begun < 1
        note = holder(paths)
        assert note is not None
        assert f"process {process.pid} on {socket.gethostname()} since {note.since}" in str(caught.value)
        assert note.pid == process.pid


def test_the_owners_name_is_on_the_disk_before_it_does_anything(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[str, bytes] = {}
    really_sync = os.fsync

    def note_and_sync(fd: int) -> None:
        synced[os.readlink(f"/proc/self/fd/{fd}")] = os.pread(fd, 4096, 0)
        really_sync(fd)

    # What was in the file at the moment of its sync; the kernel can not be asked.
    monkeypatch.setattr(os, "fsync", note_and_sync)
    with acquire(paths):
        assert synced[str(paths.lock)] == paths.lock.read_bytes()
        assert f'"pid":{os.getpid()}' in paths.lock.read_text()


def test_second_owner_in_the_same_process_is_refused(paths: RunPaths) -> None:
    with acquire(paths), pytest.raises(RunLocked), acquire(paths):
        pass


def test_lock_is_free_at_once_when_its_owner_is_killed(paths: RunPaths) -> None:
    with owner(paths) as (process, _):
        process.kill()
        process.wait()
        assert not is_owned(paths)
        with acquire(paths) as lock:
            assert lock.last_owner is not None
            assert lock.last_owner.pid == process.pid


def test_a_stopped_owner_is_not_robbed(paths: RunPaths) -> None:
    with owner(paths) as (process, _):
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert is_owned(paths)
        with pytest.raises(RunLocked), acquire(paths):
            pass
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("how", ["child", "fork"])
def test_a_child_that_outlives_the_owner_does_not_hold_the_lock(paths: RunPaths, how: str) -> None:
    with owner(paths, how) as (process, said):
        process.kill()
        process.wait()
        os.kill(int(said), 0)
        try:
            assert not is_owned(paths)
        finally:
            os.kill(int(said), signal.SIGKILL)


def test_a_lock_file_that_was_replaced_is_refused(paths: RunPaths) -> None:
    # The other process holds the first file; whoever locks the new one would own nothing.
    copy = paths.root / "copy"
    shutil.copy(paths.lock, copy)
    fd = os.open(paths.lock, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)

    def replace() -> None:
        copy.rename(paths.lock)
        os.close(fd)

    replaced = threading.Timer(0.1, replace)
    replaced.start()
    with pytest.raises(StoreError, match="replaced by another one"), acquire(paths):
        pass
    replaced.join()


def test_a_lock_file_that_was_removed_is_not_made_anew(paths: RunPaths) -> None:
    with owner(paths):
        paths.lock.unlink()
        with pytest.raises(StoreError, match="lock file is gone"), acquire(paths):
            pass
        assert not paths.lock.exists()
    with pytest.raises(StoreError, match="lock file is gone"):
        is_owned(paths)


def test_owning_keeps_the_very_same_file(paths: RunPaths) -> None:
    before = paths.lock.stat()
    with acquire(paths):
        pass
    assert os.path.samestat(before, paths.lock.stat())


def test_probes_do_not_make_a_starting_owner_fail(paths: RunPaths) -> None:
    stop = threading.Event()

    def probe() -> None:
        while not stop.is_set():
            is_owned(paths)

    probes = [threading.Thread(target=probe) for _ in range(4)]
    for thread in probes:
        thread.start()
    try:
        for _ in range(50):
            with acquire(paths):
                assert is_owned(paths)
    finally:
        stop.set()
        for thread in probes:
            thread.join()


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\x00", b'{"pid":"x"}'])
def test_text_in_the_lock_file_only_informs(paths: RunPaths, text: bytes) -> None:
    paths.lock.write_bytes(text)
    with acquire(paths) as lock:
        assert lock.last_owner is None
        note = holder(paths)
        assert note is not None
        assert note.pid == os.getpid()


def test_a_longer_note_leaves_nothing_behind(paths: RunPaths) -> None:
    paths.lock.write_bytes(b"x" * 4000)
    with acquire(paths):
        note = holder(paths)
    assert note is not None
    assert paths.lock.read_bytes().endswith(b"}\n")
