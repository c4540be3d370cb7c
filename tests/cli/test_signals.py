"""Signals at the edges of a command: while it loads, when all is done, and inside a library's own work."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.kit.cli.calling import LAB, environment, lab, write_experiment
from tests.kit.waiting import wait_for

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
SLOW_IMPORT = """
import pathlib, sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            pathlib.Path({mark!r}).touch()
            for _ in range(600):  # one that comes just before a sleep begins is heard after it
                time.sleep(0.1)

sys.meta_path.insert(0, Slow())
"""
SLOW_END = """
import atexit, pathlib, time

@atexit.register
def last():
    pathlib.Path({mark!r}).touch()
    for _ in range(600):
        time.sleep(0.1)
"""


def start(folder: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [LAB, *words],
        cwd=folder,
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_with(code: str, folder: Path, *words: str) -> subprocess.Popen[str]:
    """A command whose interpreter does something of a test's own first; it says so by a mark."""
    (folder / "sitecustomize.py").write_text(code)
    process = start(folder, *words, PYTHONPATH=os.pathsep.join([str(folder), *_more_paths()]))
    wait_for((folder / "mark").exists)
    return process


def _more_paths() -> list[str]:
    return [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []


def seconds_used(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("module", ["labrunner.cli.catalogue", "labrunner.runner.sitting.sitting"])
def test_a_signal_while_a_command_loads_ends_it_without_a_word(
    tmp_path: Path, number: signal.Signals, module: str
) -> None:
    write_experiment(tmp_path)
    code = SLOW_IMPORT.format(module=module, mark=str(tmp_path / "mark"))
    process = start_with(code, tmp_path, "run")

    process.send_signal(number)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err) == (130, "", "")
    assert not (tmp_path / ".lab").exists()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_when_all_is_done_changes_nothing(tmp_path: Path, number: signal.Signals) -> None:
    write_experiment(tmp_path, tasks=1)
    process = start_with(SLOW_END.format(mark=str(tmp_path / "mark")), tmp_path, "plan", "--json")

    process.send_signal(number)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, err) == (0, "")
    assert out.startswith("{")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_query(tmp_path: Path, number: signal.Signals) -> None:
    write_experiment(tmp_path, tasks=1)
    assert lab("run", "--run-id", "x", cwd=tmp_path).code == 0
    endless = "select count(*) from range(100000000000) as numbers, trials"
    (tmp_path / "temporary").mkdir()
    process = start(tmp_path, "query", "x", endless, TMPDIR=str(tmp_path / "temporary"))
    wait_for(lambda: list(tmp_path.glob("temporary/lab-query-*/reached/answers")))
    before = seconds_used(process.pid)
    wait_for(lambda: seconds_used(process.pid) > before + 0.5)  # at work on the numbers

    process.send_signal(number)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err) == (130, "", "")
    assert list(tmp_path.glob("temporary/*")) == []
