"""Listing a container's processes, from a made-up `/proc` and control groups, where moments can be chosen."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from labrunner.sandbox.docker.engine.hostview import GONE, PROC, list_processes
from labrunner.sandbox.docker.engine.replies import Process
from labrunner.sandbox.docker.watching.residue import intruders
from tests.kit.waiting import wait_for

NAME = "c0ffee"
FIRST = 100


@dataclass
class Host:
    """A machine that is made of files."""

    proc: Path
    groups: Path
    path: str = f"system.slice/docker-{NAME}.scope"

    def run(self, pid: int, *, state: str = "S", threads: int = 1, command: str = "x") -> None:
        folder = self.proc / str(pid)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(stat_line(pid, state, threads))
        (folder / "cmdline").write_bytes(command.encode() + b"\0")

    def put(self, *pids: int, inside: str = "") -> None:
        group = self.groups / self.path / inside
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def processes(self) -> tuple[Process, ...]:
        found = list_processes(NAME, FIRST, proc=self.proc, groups=self.groups)
        assert found is not None
        return found

    def pids(self) -> list[int]:
        return [process.pid for process in self.processes()]

    @contextmanager
    def when_seen(self, pid: int, happens: Callable[[], None], *, state: str) -> Iterator[None]:
        """While a process is being looked at for the first time something happens; then it has this state."""
        stat = self.proc / str(pid) / "stat"
        stat.unlink()
        os.mkfifo(stat)

        def tell() -> None:
            with stat.open("w") as pipe:  # opens when somebody reads
                stat.unlink()
                stat.write_text(stat_line(pid, state, 1))
                happens()
                pipe.write(stat_line(pid, state, 1))

        teller = threading.Thread(target=tell)
        teller.start()
        yield
        teller.join()


def stat_line(pid: int, state: str, threads: int) -> str:
    between = " ".join("0" for _ in range(15))
    return f"{pid} (a) name) {state} {FIRST} {between} {threads} 0 0\n"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(proc=tmp_path / "proc", groups=tmp_path / "groups")
    host.run(FIRST, command="wrapper")
    (host.proc / str(FIRST) / "cgroup").write_text(f"0::/{host.path}\n")
    host.put(FIRST)
    return host


def test_a_container_of_which_nothing_is_known_here_has_no_list(host: Host) -> None:
    assert list_processes("another", FIRST, proc=host.proc, groups=host.groups) is None
    assert list_processes(NAME, 101, proc=host.proc, groups=host.groups) is None


def test_the_quiet_container_is_listed_as_it_is(host: Host) -> None:
    host.run(101, command="sleep\0" + "60")
    host.put(FIRST, 101)
    assert [(each.pid, each.command) for each in host.processes()] == [(FIRST, "wrapper"), (101, "sleep 60")]


@pytest.mark.parametrize("seen", [101, 103], ids=["while it is looked at", "after it was looked at"])
def test_a_process_that_forks_and_ends_leaves_no_child_unlisted(host: Host, seen: int) -> None:
    host.run(101)
    host.run(103)
    host.put(FIRST, 101, 103)

    def fork_and_end() -> None:
        host.run(102)
        host.put(FIRST, 102, 103)

    with host.when_seen(seen, fork_and_end, state="Z" if seen == 101 else "S"):
        assert host.pids() == [FIRST, 102, 103]


def test_somebody_who_is_gone_whenever_one_looks_is_told_as_an_intruder(host: Host) -> None:
    host.put(FIRST, 101)
    (left,) = intruders(host.processes(), FIRST, 60)
    assert (left.pid, left.command) == (101, GONE)


def test_groups_inside_the_containers_are_its_own(host: Host) -> None:
    for pid in (101, 102):
        host.run(pid)
    host.put(101, inside="inner")
    host.put(102, inside="inner/most")
    assert host.pids() == [FIRST, 101, 102]


def test_a_first_process_in_a_group_further_in_does_not_hide_the_others(host: Host) -> None:
    (host.proc / str(FIRST) / "cgroup").write_text(f"0::/{host.path}/init\n")
    host.run(101)
    host.put(101)
    host.put(FIRST, inside="init")
    assert host.pids() == [FIRST, 101]


def test_a_group_in_a_tree_of_one_controller_is_found(host: Host) -> None:
    (host.proc / str(FIRST) / "cgroup").write_text(f"1:name=systemd:/{host.path}\n8:pids:/docker/{NAME}\n")
    there = Host(proc=host.proc, groups=host.groups / "pids", path=f"docker/{NAME}")
    there.put(FIRST)
    assert host.pids() == [FIRST]


@pytest.mark.parametrize(
    ("state", "threads", "is_dead"), [("Z", 1, True), ("X", 0, True), ("Z", 2, False), ("S", 1, False)]
)
def test_only_a_process_without_a_thread_that_goes_on_is_dead(
    host: Host, state: str, threads: int, is_dead: bool
) -> None:
    host.run(101, state=state, threads=threads)
    host.put(FIRST, 101)
    assert [process.is_dead for process in host.processes()] == [False, is_dead]


@pytest.mark.parametrize(("stat", "is_dead"), [("Z", True), ("Z+", True), ("Zl", False), ("Ssl", False)])
def test_the_engines_own_list_knows_the_dead_as_well(stat: str, is_dead: bool) -> None:
    assert Process.of(["101", "100", stat, "[x] <defunct>"]).is_dead == is_dead


LEADERLESS = """
import ctypes, threading
threading.Thread(target=threading.Event().wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_real_process_whose_first_thread_has_ended_is_alive(host: Host) -> None:
    with subprocess.Popen([sys.executable, "-c", LEADERLESS]) as process:
        try:
            stat = PROC / str(process.pid) / "stat"
            wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
            (host.proc / str(process.pid)).symlink_to(stat.parent)
            host.put(FIRST, process.pid)
            assert not any(each.is_dead for each in host.processes())
        finally:
            process.kill()
