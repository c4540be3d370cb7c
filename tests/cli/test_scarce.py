"""Machines that give little: few open files, a file system without locks. Told in words, never as a crash."""

import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap import seccomp
from tests.kit.cli.calling import AGENT_SHOUTS, LAB, Answer, environment, lab, write_experiment

SLOW = "import time; time.sleep(1)\n" + AGENT_SHOUTS


def lab_with_few_files(files: int, *words: str, cwd: Path) -> Answer:
    line = f'ulimit -n {files}; exec "$0" "$@"'
    done = subprocess.run(
        ["/bin/bash", "-c", line, LAB, *words],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("sandbox", ["process", pytest.param("bubblewrap", marks=pytest.mark.bwrap)])
@pytest.mark.parametrize("files", [30, 100, 190])
def test_too_few_open_files_are_told_at_preflight_with_the_number(
    tmp_path: Path, sandbox: str, files: int
) -> None:
    write_experiment(tmp_path, sandbox=sandbox)
    told = lab_with_few_files(files, "run", cwd=tmp_path)
    assert told.code == 2, told.err
    assert f"open files: this process may have {files} files open" in told.err
    assert "ulimit -n 192" in told.err
    assert "Traceback" not in told.err
    assert "namespaces" not in told.err


@pytest.mark.parametrize("sandbox", ["process", pytest.param("bubblewrap", marks=pytest.mark.bwrap)])
def test_just_enough_open_files_are_enough(tmp_path: Path, sandbox: str) -> None:
    write_experiment(tmp_path, sandbox=sandbox)
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.dup2(inherited, 251, inheritable=True)  # a number that the limit below does not reach
    try:
        line = ["bash", "-c", f"ulimit -n 192; exec {LAB} run --run-id r --max-concurrency 2"]
        done = subprocess.run(
            line, cwd=tmp_path, env=environment(), capture_output=True, text=True, pass_fds=(251,)
        )
    finally:
        os.close(251)
        os.close(inherited)
    assert done.returncode == 0, done.stderr


@pytest.mark.bwrap
def test_a_run_that_runs_out_of_files_ends_in_order_and_can_be_continued(tmp_path: Path) -> None:
    write_experiment(tmp_path, sandbox="bubblewrap", tasks=40, agent=SLOW)
    broke = lab_with_few_files(
        256, "run", "--run-id", "r", "--max-concurrency", "40", "--fail-on-error=false", cwd=tmp_path
    )
    assert broke.code == 3, broke.err[-3000:]
    assert "Traceback" not in broke.err
    assert "too many open files" in broke.err
    assert "allow more open files (ulimit -n, 256 now) or fewer trials at once" in broke.err
    assert "then: lab continue r" in broke.err
    assert "40 trials at once take up to 656: ulimit -n 656" in broke.err

    going_on = lab("continue", "r", cwd=tmp_path)
    assert going_on.code == 0, going_on.err
    counts = lab("show", "r", "--json", cwd=tmp_path).json()["status"]["counts"]
    assert (counts["committed"], counts["errors"]) == (40, 0)


WITHOUT_LOCKS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
program = bytes.fromhex(sys.argv[1])
room = ctypes.create_string_buffer(program, len(program))
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
assert libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) == 0
given = Program(len(program) // 8, ctypes.cast(room, ctypes.c_void_p))
assert libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(given), 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""
EOPNOTSUPP = 95
FLOCK = {"x86_64": 73, "aarch64": 32}


@pytest.mark.skipif(platform.machine() not in FLOCK, reason="the number of flock is not known here")
@pytest.mark.parametrize(
    "words", [("run",), ("doctor", "experiment.yaml", "--json"), ("show", "r"), ("continue", "r")]
)
def test_a_file_system_without_locks_is_told_in_words(tmp_path: Path, words: tuple[str, ...]) -> None:
    write_experiment(tmp_path)
    if "r" in words:
        assert lab("run", "--run-id", "r", cwd=tmp_path).code == 0
    program = (
        (seccomp.LOAD, 0, 0, seccomp.NUMBER_AT),
        (seccomp.JUMP_IF_EQUAL, 0, 1, FLOCK[platform.machine()]),
        (seccomp.RETURN, 0, 0, seccomp.FAIL | EOPNOTSUPP),
        (seccomp.RETURN, 0, 0, seccomp.ALLOW),
    )
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LOCKS, packed.hex(), LAB, *words],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode in {2, 3}, done.stderr
    assert "Traceback" not in done.stderr
    assert "its file system has no locks (operation not supported)" in done.stdout + done.stderr
