"""Runs of Python tasks whose process is killed in the middle."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labrunner.evaluation.evaluate import eval_set
from labrunner.experiment.options.overrides import Overrides
from labrunner.log import (
    list_eval_logs,
    read_eval_log,
    recover_eval_log,
    recoverable_eval_logs,
)
from labrunner.runner.resume.continuing import continue_run
from labrunner.runner.start import RunOptions
from labrunner.solve.origin import PythonTasks
from labrunner.store.buffering.buffer import read_live
from labrunner.store.buffering.transcripts import read_transcripts
from labrunner.store.layout import RunPaths
from tests.kit.cli.calling import lab
from tests.kit.solve.authoring import retry, write_task

pytestmark = pytest.mark.crash

SAMPLES, IN_FLIGHT = 200, 20
TASK = """
import pathlib
HERE = pathlib.Path(__file__).parent

@solver
def blocked():
    async def solve(state, generate):
        state = await generate(state)
        with open(HERE / "asked.txt", "a") as file:
            file.write(state.sample_id + "\\n")
        while (HERE / "hold").exists() and int(state.sample_id) % 10 == 5:
            await asyncio.sleep(0.05)
        return await generate(state)
    return solve

@task
def killed(count: int = 200):
    return Task(
        dataset=[Sample(input=f"text {n}", target=f"text {n}") for n in range(count)],
        solver=blocked(),
        scorer=includes(),
    )
"""
RUN = """
import sys
from labrunner import eval
eval(sys.argv[1], "mock/echo", log_dir=sys.argv[2], run_id="the-run", max_concurrency=21, display=False)
"""


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A folder with a run that was killed with 20 samples in flight and the rest finished."""
    file = write_task(tmp_path, TASK)
    (tmp_path / "hold").touch()
    process = subprocess.Popen([sys.executable, "-c", RUN, str(file), str(tmp_path / "runs")])
    buffer = tmp_path / "runs/the-run/buffer.sqlite"
    try:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and process.poll() is None and not _is_waiting(tmp_path, buffer):
            time.sleep(0.05)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert _is_waiting(tmp_path, buffer)
    (tmp_path / "hold").unlink()
    return tmp_path


def _is_waiting(folder: Path, buffer: Path) -> bool:
    """Whether everybody has been asked, and the events of all that wait are stored."""
    asked = folder / "asked.txt"
    if not asked.exists() or len(asked.read_text().split()) < SAMPLES or not buffer.exists():
        return False
    notes, events = read_live(buffer)
    models = [event for event in events if b'"event":"model"' in event.json]
    return len(notes) == len(models) == IN_FLIGHT


def counts(folder: Path) -> dict[str, int]:
    asked = (folder / "asked.txt").read_text().split()
    return {sample: asked.count(sample) for sample in set(asked)}


async def test_going_on_runs_only_what_was_not_finished_and_keeps_the_transcripts(crashed: Path) -> None:
    paths, known = RunPaths(crashed / "runs/the-run"), PythonTasks()
    before = read_transcripts(paths.buffer)
    assert len(before) == IN_FLIGHT
    options = RunOptions(
        runs_dir=crashed / "runs", secrets={}, executors=known.executor, reread=known.reread, grace_s=1.0
    )

    async def look_away(live: object) -> None:
        del live

    end = await continue_run(paths, options, Overrides(), look_away)
    assert end is not None
    assert end.status.status == "success"
    twice = {sample for sample, count in counts(crashed).items() if count == 2}
    assert twice == {str(number) for number in range(5, SAMPLES + 1, 10)}
    log = read_eval_log(paths.root)
    assert (len(log.samples), log.results.metrics["accuracy"].value) == (SAMPLES, 1.0)
    kept = sorted(paths.trial_folders.glob("*/1.cut-1/transcript.jsonl"))
    assert len(kept) == IN_FLIGHT
    for path in kept:
        assert path.read_bytes() == before[path.parent.parent.name][1]
        assert b'"event":"model"' in path.read_bytes()
    assert read_live(paths.buffer) == ([], [])
    assert all(sample.events[-1]["event"] == "end" for sample in log.samples)


def test_a_recovered_log_shows_what_was_in_flight(crashed: Path) -> None:
    runs = crashed / "runs"
    assert [info.status for info in list_eval_logs(runs)] == ["started"]
    assert [Path(info.name).name for info in recoverable_eval_logs(runs)] == ["the-run"]
    log = recover_eval_log(runs / "the-run")
    assert (log.status, len(log.samples)) == ("error", SAMPLES)
    assert log.results.completed_samples == SAMPLES - IN_FLIGHT
    cut = [sample for sample in log.samples if sample.scores is None]
    assert len(cut) == IN_FLIGHT
    assert [message.role for message in cut[0].messages] == ["user", "assistant"]
    assert cut[0].error is not None
    assert cut[0].error.reason == "cancelled"
    assert read_eval_log(runs / "the-run").status == "started"


def test_the_log_of_a_crashed_run_has_what_was_in_flight_in_its_place(crashed: Path) -> None:
    samples = list(read_eval_log(crashed / "runs/the-run").samples)
    assert [sample.id for sample in samples] == [str(number) for number in range(1, SAMPLES + 1)]
    cut = [sample for sample in samples if sample.error]
    assert len(cut) == IN_FLIGHT
    assert {(sample.error.reason, sample.score) for sample in cut if sample.error} == {("cancelled", None)}
    assert [message.role for message in cut[0].messages] == ["user", "assistant"]


def test_the_report_of_a_crash_shows_what_was_said_in_flight(crashed: Path) -> None:
    log = recover_eval_log(crashed / "runs/the-run")
    cut = next(sample for sample in log.samples if sample.error)
    shown = lab("show", log.location, cut.trial_id, cwd=crashed).out
    assert "never finished, owed" in shown
    told = [line.split() for line in shown.splitlines()]
    assert ["assistant", *str(cut.input).split()] in told, shown


def test_a_retry_takes_over_what_was_finished(crashed: Path) -> None:
    log = read_eval_log(crashed / "runs/the-run")
    assert log.status == "started"
    again = retry(log)
    assert (again.status, len(again.samples)) == ("success", SAMPLES)
    assert again.eval.task_id == log.eval.task_id
    assert sum(counts(crashed).values()) == SAMPLES + IN_FLIGHT
    assert read_eval_log(crashed / "runs/the-run").status == "started"


def test_a_set_goes_on_by_itself(crashed: Path) -> None:
    is_done, logs = eval_set(str(crashed / "task.py"), crashed / "runs", "mock/echo", display=False)
    assert is_done
    assert [(log.status, len(log.samples)) for log in logs] == [("success", SAMPLES)]
    assert sum(counts(crashed).values()) == SAMPLES + IN_FLIGHT
