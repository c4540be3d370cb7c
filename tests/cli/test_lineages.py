"""A lineage is one story: retries and regradings tell of every attempt before them."""

import json
import signal
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labrunner.log import read_eval_log
from tests.kit.cli.calling import AGENT_SHOUTS, GRADER, lab, write_experiment
from tests.kit.view.handouts import read_handout

COSTLY = (
    """
import json, os, pathlib
with open(os.environ["STARTS"], "a") as file:
    file.write(os.environ["AGENTLAB_TASK_ID"] + "\\n")
pathlib.Path(os.environ["AGENTLAB_RESULT_PATH"]).write_text(json.dumps({
    "schema_version": "agent_result_v1",
    "ids": {"run_id": os.environ["AGENTLAB_RUN_ID"], "trial_id": os.environ["AGENTLAB_TRIAL_ID"],
            "variant_id": os.environ["AGENTLAB_VARIANT_ID"], "task_id": os.environ["AGENTLAB_TASK_ID"],
            "repl_idx": int(os.environ["AGENTLAB_REPL_IDX"])},
    "outcome": "success", "metrics": {"tokens": 10, "cost_usd": 0.25}}))
if os.environ["AGENTLAB_TASK_ID"] in pathlib.Path(os.environ["BAD"]).read_text().split():
    raise SystemExit(75)
"""
    + AGENT_SHOUTS
)
BROKEN = "raise SystemExit('this grader is broken')\n"


def costly(folder: Path, *, bad: str = "", grader: str = GRADER, extra: str = "") -> Path:
    write_experiment(
        folder,
        agent=COSTLY,
        grader=grader,
        extra="fail_on_error: false\nkeep: {workspace: always}\n" + extra,
    )
    (folder / "starts").write_text("")
    (folder / "bad").write_text(bad)
    run = lab("run", "--run-id", "r1", *names_of(folder), cwd=folder)
    assert run.code == 0, run.err
    return folder


def names_of(folder: Path) -> tuple[str, ...]:
    return ("--env", f"STARTS={folder / 'starts'}", "--env", f"BAD={folder / 'bad'}")


def starts(folder: Path) -> list[str]:
    """Tasks whose agents were started since the last look."""
    found = sorted((folder / "starts").read_text().split())
    (folder / "starts").write_text("")
    return found


def earlier(folder: Path, run: str) -> dict[str, list[tuple[str, int, str, str]]]:
    lines = (folder / ".lab/runs" / run / "facts/earlier.jsonl").read_text().splitlines()
    return {
        row["ids"]["task_id"]: [
            (each["run_id"], each["attempt"], each["standing"], each.get("verdict") or each["cause"])
            for each in row["attempts"]
        ]
        for row in map(json.loads, lines)
    }


def test_a_retry_tells_of_every_attempt_before_it(tmp_path: Path) -> None:
    costly(tmp_path, bad="t1 t2")
    (tmp_path / "bad").write_text("t1")
    assert lab("retry", "r1", "--run-id", "r2", cwd=tmp_path).code == 0
    (tmp_path / "bad").write_text("")
    assert lab("retry", "r2", "--run-id", "r3", cwd=tmp_path).code == 0

    assert not (tmp_path / ".lab/runs/r1/facts/earlier.jsonl").exists()
    assert earlier(tmp_path, "r2") == {
        "t1": [("r1", 1, "failed", "provider")],
        "t2": [("r1", 1, "failed", "provider")],
    }
    assert earlier(tmp_path, "r3") == {
        "t1": [("r1", 1, "failed", "provider"), ("r2", 1, "failed", "provider")],
        "t2": [("r1", 1, "failed", "provider")],
    }
    assert lab("verify", "r3", cwd=tmp_path).code == 0


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "edited": lambda path: path.write_bytes(path.read_bytes().replace(b'"provider"', b'"sandbox"')),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_lineage_that_was_damaged_is_neither_asked_nor_exported(tmp_path: Path, how: str) -> None:
    costly(tmp_path, bad="t1")
    assert lab("retry", "r1", "--run-id", "r2", cwd=tmp_path).code == 0
    DAMAGE[how](tmp_path / ".lab/runs/r2/facts/earlier.jsonl")

    for words in (("query", "r2", "select 1 from trials"), ("export", "r2", "--to", "csv")):
        told = lab(*words, cwd=tmp_path)
        assert (told.code, "earlier.jsonl" in told.err) == (3, True), (words, told)
        assert "Traceback" not in told.err


def test_after_a_grader_was_mended_a_retry_grades_again_and_runs_no_agent(tmp_path: Path) -> None:
    costly(tmp_path, grader=BROKEN)
    assert starts(tmp_path) == ["t0", "t1", "t2"]
    (tmp_path / "grader" / "grade.py").write_text(GRADER)

    planned = lab("retry", "r1", "--dry-run", cwd=tmp_path)
    done = lab("retry", "r1", "--run-id", "r2", cwd=tmp_path)

    assert "0 trials taken over, 3 to grade again, 0 to run" in planned.err
    assert done.code == 0, done.err
    assert starts(tmp_path) == []
    totals = lab("show", "r2", "--json", cwd=tmp_path).json()["summary"]["totals"]
    assert (totals["pass"], totals["fail"], totals["error"]) == (2, 1, 0)
    assert earlier(tmp_path, "r2")["t0"] == [("r1", 1, "graded_again", "grade_error")]
    assert lab("verify", "r2", cwd=tmp_path).code == 0


def test_work_that_turned_out_to_be_changed_is_judged_once_and_then_its_agent_runs(tmp_path: Path) -> None:
    costly(tmp_path, grader=BROKEN)
    starts(tmp_path)
    (hurt,) = (tmp_path / ".lab/runs/r1/trials").glob("t0.*/1/workspace")
    (hurt / "more.txt").write_text("somebody was here")
    (tmp_path / "grader" / "grade.py").write_text(GRADER)

    assert lab("retry", "r1", "--run-id", "r2", cwd=tmp_path).code == 0
    assert starts(tmp_path) == []
    done = lab("retry", "r2", "--run-id", "r3", cwd=tmp_path)

    assert "2 trials taken over, 1 to run" in done.err
    assert starts(tmp_path) == ["t0"]
    assert lab("show", "r3", "--json", cwd=tmp_path).json()["summary"]["totals"]["error"] == 0


def test_a_workspace_that_is_half_thrown_away_is_not_judged(tmp_path: Path) -> None:
    costly(tmp_path, grader=BROKEN)
    starts(tmp_path)
    (tmp_path / "grader" / "grade.py").write_text(GRADER)
    (workspace,) = (tmp_path / ".lab/runs/r1/trials").glob("t0.*/1/workspace")
    die_while_removing(workspace)

    done = lab("retry", "r1", "--run-id", "r2", cwd=tmp_path)

    assert "0 trials taken over, 2 to grade again, 1 to run" in done.err
    assert starts(tmp_path) == ["t0"]
    assert lab("clean", "--workspaces", "--yes", cwd=tmp_path).code == 0
    assert not list(workspace.parent.glob("workspace*"))


def die_while_removing(workspace: Path) -> None:
    """Throw a workspace away in a process that is killed when the first entry goes."""
    code = (
        "import os, sys, pathlib\n"
        "from labrunner.files.strangers.removal import throw_away\n"
        "def die(event, args):\n"
        "    if event == 'os.rmdir' or event == 'os.remove':\n"
        "        os.kill(os.getpid(), 9)\n"
        "sys.addaudithook(die)\n"
        "throw_away(pathlib.Path(sys.argv[1]))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(workspace)], check=False)
    assert killed.returncode == -signal.SIGKILL


def test_verdicts_of_a_grader_that_changed_are_given_again(tmp_path: Path) -> None:
    costly(tmp_path)
    starts(tmp_path)
    lenient = GRADER.replace("answer == target", "True")
    (tmp_path / "grader" / "grade.py").write_text(lenient)

    assert lab("retry", "r1", "--run-id", "r2", cwd=tmp_path).code == 0

    assert starts(tmp_path) == []
    assert lab("show", "r2", "--json", cwd=tmp_path).json()["summary"]["totals"]["pass"] == 3
    assert earlier(tmp_path, "r2")["t0"] == [("r1", 1, "graded_again", "fail")]


def test_agents_run_again_where_their_work_was_not_kept_or_their_task_changed(tmp_path: Path) -> None:
    costly(tmp_path)
    starts(tmp_path)
    (tmp_path / "grader" / "grade.py").write_text(GRADER.replace("answer == target", "True"))
    rows = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    rows[1]["input"] = "another word"
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert lab("clean", "--workspaces", "--yes", cwd=tmp_path).code == 0

    done = lab("retry", "r1", "--run-id", "r2", cwd=tmp_path)

    assert "0 trials taken over, 3 to run" in done.err
    assert starts(tmp_path) == ["t0", "t1", "t2"]
    assert earlier(tmp_path, "r2")["t1"] == [("r1", 1, "changed", "pass")]


def test_a_regrading_is_part_of_the_lineage_and_can_be_retried(tmp_path: Path) -> None:
    costly(tmp_path, bad="t2")
    starts(tmp_path)
    (tmp_path / "bad").write_text("")
    (tmp_path / "lenient").mkdir()
    (tmp_path / "lenient" / "grade.py").write_text(GRADER.replace("answer == target", "True"))

    assert lab("regrade", "r1", "--grader", "lenient", "--run-id", "r2", cwd=tmp_path).code == 0
    done = lab("retry", "r2", "--run-id", "r3", cwd=tmp_path)

    assert done.code == 0, done.err
    assert "2 trials taken over, 1 to run" in done.err
    assert starts(tmp_path) == ["t2"]
    records = {
        run: json.loads((tmp_path / ".lab/runs" / run / "run.json").read_text()) for run in ("r2", "r3")
    }
    assert [record["lineage_id"] for record in records.values()] == ["r1", "r1"]
    assert lab("show", "r3", "--json", cwd=tmp_path).json()["summary"]["totals"]["pass"] == 3
    assert earlier(tmp_path, "r3") == {
        "t0": [("r1", 1, "graded_again", "fail")],
        "t1": [("r1", 1, "graded_again", "pass")],
        "t2": [("r1", 1, "failed", "provider")],
    }


def test_a_damaged_note_of_an_attempt_keeps_nobody_from_a_retry(tmp_path: Path) -> None:
    costly(tmp_path, bad="t2")
    (tmp_path / "bad").write_text("")
    rows = (tmp_path / ".lab/runs/r1/facts/trials.jsonl").read_text().splitlines()
    buffer = sqlite3.connect(tmp_path / ".lab/runs/r1/buffer.sqlite")
    with buffer:
        trial_id = json.loads(rows[2])["ids"]["trial_id"]
        buffer.execute("INSERT INTO attempts VALUES ('x', 2, ?, 1, 'failed', ?, 0)", (trial_id, b"{"))
    buffer.close()

    done = lab("retry", "r1", "--run-id", "r2", cwd=tmp_path)

    assert done.code == 0, done.err
    assert earlier(tmp_path, "r2") == {"t2": [("r1", 1, "failed", "provider")]}


def test_only_work_that_a_regrading_judges_is_told_as_judged_anew(tmp_path: Path) -> None:
    costly(tmp_path, bad="t2")

    assert lab("regrade", "r1", "--run-id", "r2", cwd=tmp_path).code == 0
    assert earlier(tmp_path, "r2") == {
        "t0": [("r1", 1, "graded_again", "fail")],
        "t1": [("r1", 1, "graded_again", "pass")],
        "t2": [("r1", 1, "failed", "provider")],
    }
    assert "2 judged anew in r2" in " ".join(lab("show", "r2", cwd=tmp_path).out.split())


def test_a_retry_that_grades_again_can_be_killed_and_continued(tmp_path: Path) -> None:
    costly(tmp_path, grader=BROKEN)
    starts(tmp_path)
    (tmp_path / "grader" / "grade.py").write_text(GRADER)
    killed = lab("retry", "r1", "--run-id", "r2", cwd=tmp_path, env={"LAB_DIE_AT": "commit.rows_synced:1"})
    assert killed.code < 0

    done = lab("continue", "r2", cwd=tmp_path)

    assert done.code == 0, done.err
    assert starts(tmp_path) == []
    totals = lab("show", "r2", "--json", cwd=tmp_path).json()["summary"]["totals"]
    assert (totals["pass"], totals["fail"], totals["error"]) == (2, 1, 0)
    assert lab("verify", "r2", cwd=tmp_path).code == 0


def story(folder: Path) -> None:
    """A failing run, retried three times, graded again once, retried again."""
    costly(folder, bad="t1 t2")
    for run, source, bad in (("r2", "r1", "t1 t2"), ("r3", "r2", "t1"), ("r4", "r3", "t1")):
        (folder / "bad").write_text(bad)
        assert lab("retry", source, "--run-id", run, cwd=folder).code == 0
    (folder / "lenient").mkdir()
    (folder / "lenient" / "grade.py").write_text(GRADER.replace("answer == target", "True"))
    assert lab("regrade", "r4", "--grader", "lenient", "--run-id", "r5", cwd=folder).code == 0
    (folder / "bad").write_text("")
    assert lab("retry", "r5", "--run-id", "r6", cwd=folder).code == 0


def test_the_last_run_of_a_lineage_tells_the_whole_story(tmp_path: Path) -> None:
    # t0: fails once, judged anew. t1: four errors, then run. t2: two errors, then run, judged anew.
    story(tmp_path)
    shown = lab("show", "r6", cwd=tmp_path).out
    told = lab("show", "r6", "--json", cwd=tmp_path).json()["summary"]
    lineage, figures = told["ext"]["lineage"], told["ext"]["figures"]["baseline"]

    assert figures["retried"] == 2
    assert lineage["runs"] == ["r1", "r2", "r3", "r4"]
    assert lineage["standings"] == {"graded_again": 2, "failed": 6}
    assert lineage["causes"] == {"provider": 6}
    assert lineage["verdicts"] == {"fail": 1, "pass": 1}
    assert (lineage["tokens"], lineage["cost_usd"]) == (80, 2.0)
    assert lineage["judged_in"] == ["r5"]
    said = "before this run: 8 attempts in r1, r2, r3, r4 (6 failed; 2 judged anew in r5; errors by cause"
    assert said in " ".join(shown.split())
    # All nine agents that ran are counted once: 90 tokens, of which those of the six errors bought nothing.
    assert figures["expense"]["tokens"]["total"] == 90
    assert figures["expense"]["tokens"]["discarded"] == 60
    shift = told["ext"]["retry_shift"]["variants"][0]
    assert (shift["retried"], shift["attempts"], shift["most_attempts"]) == (2, 9, 5)


def test_the_story_is_in_sql_the_trial_view_the_log_and_the_eval_file(tmp_path: Path) -> None:
    story(tmp_path)

    counted = lab(
        "query", "r6", "--json",
        "select made_in, standing, judged_in, count(*) n, sum(tokens) tokens from earlier group by all "
        "order by all",
        cwd=tmp_path,
    ).json()  # fmt: skip
    trials = lab(
        "query", "r6", "--json",
        "select task_id, earlier_attempts, retried from trials order by task_id", cwd=tmp_path,
    ).json()  # fmt: skip
    trial, judged = (lab("show", "r6", task, cwd=tmp_path).out for task in ("t1", "t2"))
    plain = lab("show", "r6", "t1", "--json", cwd=tmp_path).json()
    assert lab("export", "r6", "--to", "inspect", "-o", "out.eval", cwd=tmp_path).code == 0

    assert {row["judged_in"] for row in counted if row["standing"] == "graded_again"} == {"r5"}
    assert "it is the work that was judged anew in r5" in " ".join(judged.split())
    assert [(row["made_in"], row["standing"], row["n"], row["tokens"]) for row in counted] == [
        ("r1", "failed", 2, 20.0),
        ("r1", "graded_again", 1, 10.0),
        ("r2", "failed", 2, 20.0),
        ("r3", "failed", 1, 10.0),
        ("r3", "graded_again", 1, 10.0),
        ("r4", "failed", 1, 10.0),
    ]
    assert [(row["task_id"], row["earlier_attempts"], row["retried"]) for row in trials] == [
        ("t0", 1, False),
        ("t1", 4, True),
        ("t2", 3, True),
    ]
    assert trial.count("earlier, attempt 1 of") == 4
    for kind, read in (("markdown", Path.read_text), ("html", read_handout)):
        assert lab("export", "r6", "--to", kind, "-o", f"out.{kind}", cwd=tmp_path).code == 0
        assert "8 attempts in r1, r2, r3, r4" in (text := read(tmp_path / f"out.{kind}"))
        assert "2 judged anew in r5" in text
    assert [attempt["run_id"] for attempt in plain["earlier"]] == ["r1", "r2", "r3", "r4"]
    sample = read_samples(tmp_path / "out.eval")["t1"]
    assert len(sample["error_retries"]) == 4
    assert [usage["total_tokens"] for usage in sample["model_usage"].values()] == [50]
    (heard,) = [
        each for each in read_eval_log(tmp_path / ".lab" / "runs" / "r6").samples or () if each.id == "t1"
    ]
    assert len(heard.error_retries) == 4


def read_samples(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        return {sample["id"]: sample for sample in (json.loads(archive.read(name)) for name in names)}


def test_a_budget_is_the_lineages(tmp_path: Path) -> None:
    costly(tmp_path, bad="t1 t2", extra="budget: {cost_usd: 1.0}\nmax_concurrency: 1\n")
    starts(tmp_path)
    (tmp_path / "bad").write_text("")

    stopped = lab("retry", "r1", "--run-id", "r2", cwd=tmp_path)
    more = lab("retry", "r2", "--run-id", "r3", "--set", "budget.cost_usd=2", cwd=tmp_path)

    assert stopped.code == 1
    assert "the budget of 1 USD is used up: 1 spent in 4 attempts" in stopped.out + stopped.err
    assert more.code == 0, more.err
    assert len(starts(tmp_path)) == 2


def compared(folder: Path, *words: str) -> Any:
    return lab("compare", *words, "--json", cwd=folder).json()


def test_a_run_is_compared_with_its_regrading_and_the_grader_is_named(tmp_path: Path) -> None:
    costly(tmp_path)
    (tmp_path / "lenient").mkdir()
    (tmp_path / "lenient" / "grade.py").write_text(GRADER.replace("answer == target", "True"))
    assert lab("regrade", "r1", "--grader", "lenient", "--run-id", "r2", cwd=tmp_path).code == 0

    found = compared(tmp_path, "r1", "r2")
    shown = " ".join(lab("compare", "r1", "r2", cwd=tmp_path).out.split())

    assert found["comparisons"][0]["tasks"] == 3
    assert found["comparisons"][0]["difference"] == pytest.approx(1 / 3)
    assert found["differences"] == [
        "r1 and r2: grader.dir not the same for tasks t0, t1, t2; "
        "they ask the same and are paired: part of a difference may be the grader's"
    ]
    assert "not the same: r1 and r2: grader.dir" in shown


def test_tasks_that_ask_something_else_are_paired_only_by_id(tmp_path: Path) -> None:
    costly(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    rows[1]["input"] = "another word"
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert lab("run", "--run-id", "r2", *names_of(tmp_path), cwd=tmp_path).code == 0

    by_content, by_id = compared(tmp_path, "r1", "r2"), compared(tmp_path, "r1", "r2", "--pair-by", "id")

    assert (by_content["comparisons"][0]["tasks"], by_id["comparisons"][0]["tasks"]) == (2, 3)
    assert "to pair them all the same: --pair-by id" in by_content["differences"][0]
    assert by_id["differences"][0].startswith("r1 and r2: input, prompt not the same for tasks t1; paired by")
