"""Runs that are replayed by the real `lab`: what people see of it, and what counts."""

import json
import shutil
from pathlib import Path

import pytest

from tests.kit.cli.calling import Answer, lab, squeeze

RETRIED = "r2"
LETTERS = """
from labrunner import Task, task
from labrunner.dataset import Sample
from labrunner.scorer import includes

@task
def letters():
    return Task(dataset=[Sample(input="a", target="a")], scorer=includes())
"""
TOLD = f"replays {RETRIED}: models answered what is recorded there"
FEW = ("--replications", "1", "--limit", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template's experiment, run; a trial failed at first, and was retried in a run of its own."""
    place = tmp_path_factory.mktemp("replayed")
    assert lab("init", "e", "--template", "agent", cwd=place).code == 0
    made = place / "e"
    grade = made / "grader/grade.py"
    whole = grade.read_text()
    grade.write_text(
        'import os\nif os.environ["AGENTLAB_TASK_ID"] == "newest": raise SystemExit(1)\n' + whole
    )
    first = lab("run", "--run-id", "r1", "--fail-on-error=false", *FEW, cwd=made)
    assert first.code == 0, first.err
    grade.write_text(whole)
    again = lab("retry", "r1", "--run-id", RETRIED, cwd=made)
    assert again.code == 0, again.err
    played = lab("run", "--run-id", "played", "--replay", RETRIED, *FEW, cwd=made)
    assert played.code == 0, played.err
    assert TOLD in squeeze(played.out)
    return made


def find_digest(ended: Answer) -> str:
    return next(line for line in ended.out.splitlines() if line.startswith("digest "))


def test_a_chain_of_retries_is_replayed_whole_and_everybody_says_that_it_is_no_new_sample(
    folder: Path,
) -> None:
    shown = lab("show", "played", cwd=folder)
    assert find_digest(shown) == find_digest(lab("show", RETRIED, cwd=folder))
    assert TOLD in squeeze(shown.out)
    figures = lab("show", "played", "--json", cwd=folder).json()["summary"]["ext"]["figures"]
    assert {each["expense"]["cost_usd"]["total"] for each in figures.values()} == {0.0}
    held = lab("compare", RETRIED, "played", "--require", "played:small >= r2:small", cwd=folder)
    assert TOLD in squeeze(held.out)
    assert (held.code, "have the same recorded answers" in held.err) == (4, True)
    rows = lab(
        "query", "played", "select replayed, count(*) as n from calls group by 1", "--json", cwd=folder
    )
    assert [row["replayed"] for row in rows.json()] == [True]
    assert lab("verify", "played", cwd=folder).out.startswith("played: sound, complete")
    said = lab("show", "played", "newest.small.0", cwd=folder).out
    assert "replayed  " in said
    assert "3 of them replayed, and free" in said


def test_a_retry_of_a_replay_is_one_and_others_take_nothing_from_it(folder: Path) -> None:
    retried = lab("retry", "played", "--run-id", "again", cwd=folder)
    assert retried.code == 0, retried.err
    kept = json.loads((folder / ".lab/runs/again/run.json").read_text())["overrides"]
    assert Path(kept["replay"]).name == RETRIED
    alone = folder / "alone"
    shutil.copytree(folder / ".lab/runs/played", alone / "played")
    taken = lab("run", "--run-id", "new", "--reuse", str(alone), "--dry-run", *FEW, cwd=folder)
    assert "answered from a recording" in taken.out


def test_flags_that_mean_nothing_are_refused(folder: Path) -> None:
    alone = lab("run", "--replay-mode", "reuse", cwd=folder)
    assert (alone.code, "needs --replay RUN" in alone.err) == (2, True)
    other = lab("run", "--replay", RETRIED, "--replay-mode", "loose", cwd=folder)
    assert (other.code, "expected 'strict' or 'reuse'" in other.err) == (2, True)
    unknown = lab("run", "--replay", "nothing-like-it", cwd=folder)
    assert unknown.code == 2
    more = lab("run", "--replay", RETRIED, cwd=folder)
    assert (more.code, "it is not among the finished trials of that run" in squeeze(more.err)) == (2, True)
    (folder / "letters.py").write_text(LETTERS)
    python = lab("run", "letters.py", "--model", "mock/echo", "--replay", RETRIED, cwd=folder)
    assert (python.code, "it is not among the finished trials" in squeeze(python.err)) == (2, True)
