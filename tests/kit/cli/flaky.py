"""An experiment whose agents fail for tasks that a file names, and write down that they were started."""

from pathlib import Path

from tests.kit.cli.calling import AGENT_SHOUTS, lab, write_experiment

FLAKY = (
    """
import os, pathlib
with open(os.environ["STARTS"], "a") as file:
    file.write(os.environ["AGENTLAB_TASK_ID"] + "\\n")
if os.environ["AGENTLAB_TASK_ID"] in pathlib.Path(os.environ["BAD"]).read_text().split():
    raise SystemExit(75)
"""
    + AGENT_SHOUTS
)


def flaky(folder: Path, *, bad: str, tasks: int = 5) -> Path:
    write_experiment(folder, agent=FLAKY, tasks=tasks, extra="fail_on_error: false\nmax_concurrency: 2\n")
    (folder / "starts").write_text("")
    (folder / "bad").write_text(bad)
    run = lab("run", "--run-id", "first", *names_of(folder), cwd=folder)
    assert run.code == 0, run.err
    return folder


def names_of(folder: Path) -> tuple[str, ...]:
    """What the agent is told, the same for every run of this folder."""
    return ("--env", f"STARTS={folder / 'starts'}", "--env", f"BAD={folder / 'bad'}")


def starts(folder: Path) -> list[str]:
    return (folder / "starts").read_text().split()
