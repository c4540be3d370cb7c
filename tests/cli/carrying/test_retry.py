import json
import shutil
from pathlib import Path

from tests.kit.cli.calling import AGENT_SHOUTS, lab
from tests.kit.cli.flaky import flaky, names_of, starts


def totals(folder: Path, run: str = "last") -> dict[str, int]:
    counted: dict[str, int] = lab("show", run, "--json", cwd=folder).json()["summary"]["totals"]
    return counted


def test_only_what_failed_is_run_again_and_the_plan_says_so(tmp_path: Path) -> None:
    flaky(tmp_path, bad="t1 t3")
    before = {path: path.read_bytes() for path in (tmp_path / ".lab/runs/first").rglob("*.jsonl")}
    (tmp_path / "starts").write_text("")
    (tmp_path / "bad").write_text("")

    planned = lab("retry", "first", "--dry-run", cwd=tmp_path)
    done = lab("retry", "first", "--run-id", "second", cwd=tmp_path)

    assert "3 trials taken over, 2 to run" in planned.err
    assert "2 failed (provider): t1.baseline.0, t3.baseline.0" in planned.err
    assert sorted(starts(tmp_path)) == ["t1", "t3"]
    assert done.code == 0, done.err
    assert totals(tmp_path, "second")["trials"] == 5
    record = json.loads((tmp_path / ".lab/runs/second/run.json").read_text())
    assert record["lineage_id"] == "first"
    assert before == {path: path.read_bytes() for path in (tmp_path / ".lab/runs/first").rglob("*.jsonl")}
    assert lab("verify", "second", cwd=tmp_path).code == 0


def test_the_newest_good_result_of_the_whole_chain_wins(tmp_path: Path) -> None:
    flaky(tmp_path, bad="t1 t3")
    (tmp_path / "bad").write_text("t0 t3")
    lab("retry", "first", "--run-id", "second", cwd=tmp_path)

    planned = lab("retry", "second", "--dry-run", cwd=tmp_path)

    assert "1 failed (provider): t3.baseline.0" in planned.err


def test_a_result_invalidated_in_one_run_of_a_chain_is_taken_from_none(tmp_path: Path) -> None:
    flaky(tmp_path, bad="")
    lab("retry", "first", "--run-id", "second", cwd=tmp_path)
    lab("invalidate", "second", "--where", "task_id = 't1'", "--reason", "leaked", cwd=tmp_path)
    lab("invalidate", "first", "--where", "task_id = 't2'", "--reason", "leaked", cwd=tmp_path)

    planned = lab("retry", "second", "--dry-run", cwd=tmp_path)
    reusing = lab("run", "--run-id", "third", "--reuse", ".lab/runs", *names_of(tmp_path), cwd=tmp_path)
    after = lab("retry", "second", "--dry-run", cwd=tmp_path)

    assert "2 invalidated: t1.baseline.0, t2.baseline.0" in planned.err
    assert "2 invalidated: t1.baseline.0, t2.baseline.0" in reusing.err
    assert "2 invalidated" in after.err
    assert "5 trials taken over, 0 to run" in lab("retry", "third", "--dry-run", cwd=tmp_path).err


def test_what_changed_is_run_again_with_the_reason(tmp_path: Path) -> None:
    flaky(tmp_path, bad="")
    rows = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    rows[2]["input"] = "another word"
    rows.append({"id": "new", "input": "new", "target": "NEW"})
    del rows[4]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    planned = lab("retry", "first", "--dry-run", cwd=tmp_path)
    more = lab("retry", "first", "--epochs", "2", "--dry-run", cwd=tmp_path)
    (tmp_path / "agent" / "agent.py").write_text(AGENT_SHOUTS)
    changed = lab("retry", "first", "--dry-run", cwd=tmp_path)

    assert "3 trials taken over, 2 to run" in planned.err
    assert "1 the task or its grader changed: t2.baseline.0" in planned.err
    assert "1 not finished before: new.baseline.0" in planned.err
    assert "3 trials taken over, 7 to run" in more.err
    assert "0 trials taken over, 5 to run" in changed.err
    assert "the variant changed" in changed.err
    assert "since then: agent.dir changed for variants: baseline" in changed.err


def test_a_retry_of_a_success_takes_everything_over(tmp_path: Path) -> None:
    flaky(tmp_path, bad="")
    (tmp_path / "starts").write_text("")

    done = lab("retry", "first", "--run-id", "second", cwd=tmp_path)

    assert done.code == 0
    assert starts(tmp_path) == []
    assert totals(tmp_path, "second") == totals(tmp_path, "first")
    shown = lab("show", "second", "t1", cwd=tmp_path)
    assert "pass" in shown.out


def test_a_run_whose_file_is_gone_is_told_so(tmp_path: Path) -> None:
    flaky(tmp_path, bad="")
    (tmp_path / "experiment.yaml").unlink()

    refused = lab("retry", "first", cwd=tmp_path)

    assert refused.code == 2
    assert "experiment.yaml" in refused.err


def test_a_damaged_run_among_many_is_told_and_left_out(tmp_path: Path) -> None:
    flaky(tmp_path, bad="")
    shutil.copytree(tmp_path / ".lab/runs/first", tmp_path / ".lab/runs/broken")
    journal = tmp_path / ".lab/runs/broken/commits.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"x" * 20 + b"\n", *lines[2:]]))

    reusing = lab("run", "--run-id", "second", "--reuse", ".lab/runs", *names_of(tmp_path), cwd=tmp_path)
    retried = lab("retry", ".lab/runs/broken", cwd=tmp_path)
    shown = lab("show", "broken", cwd=tmp_path)

    assert reusing.code == 0, reusing.err
    assert "nothing is taken from broken: " in reusing.err
    assert "5 trials taken over, 0 to run" in reusing.err
    assert (retried.code, shown.code) == (3, 3)
    assert "to save what is sound: lab log recover broken\n" in retried.err
    assert "to save what is sound: lab log recover broken\n" in shown.err


def test_results_are_found_among_more_runs_than_a_byte_can_count(tmp_path: Path) -> None:
    flaky(tmp_path, bad="", tasks=1)
    runs = tmp_path / ".lab/runs"
    record = json.loads((runs / "first/run.json").read_text())
    lab("run", "--run-id", "empty", "--task-id", "t0", "--set", "seed=1", cwd=tmp_path)
    other = json.loads((runs / "empty/run.json").read_text())
    other["created_at"] = "2099" + other["created_at"][4:]
    assert other["created_at"] > record["created_at"]
    for number in range(300):
        shutil.copytree(runs / "empty", runs / f"newer-{number}")
        (runs / f"newer-{number}/run.json").write_text(json.dumps(other))
        (runs / f"newer-{number}/commits.jsonl").write_bytes(b"")
    shutil.rmtree(runs / "empty")

    planned = lab("run", "--run-id", "last", "--reuse", ".lab/runs", *names_of(tmp_path), cwd=tmp_path)

    assert "1 trial taken over, 0 to run" in planned.err


def test_a_run_whose_record_was_altered_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    flaky(tmp_path, bad="", tasks=2)
    runs = tmp_path / ".lab/runs"
    shutil.copytree(runs / "first", runs / "altered")
    text = (runs / "altered/run.json").read_text()
    (runs / "altered/run.json").write_text(text.replace('"timeout_s":60', '"timeout_s":61', 1))
    words = ("--reuse", ".lab/runs", *names_of(tmp_path))

    planned = lab("run", *words, "--dry-run", cwd=tmp_path)
    done = lab("run", *words, "--run-id", "second", cwd=tmp_path)

    assert "nothing is taken from altered" in planned.out, planned.err
    assert "2 trials taken over, 0 to run" in planned.out
    assert done.code == 0, done.err
