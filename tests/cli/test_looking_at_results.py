"""`show`, `compare`, `query`, `export` and `plan --power`, as people call them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from tests.kit.cli.calling import lab, write_experiment
from tests.kit.made_runs import Told, make_grid, write_run


def script(slot: Slot) -> Told:
    again = (Cause.PROVIDER,) * (slot.variant_idx == 1 and slot.task_idx < 9)
    return Told(value=1.0 if slot.variant_idx else float(slot.task_idx % 4 == 0), errors=again)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here")
    write_run(folder / ".lab" / "runs", make_grid(tasks=16, variants=("base", "new"), replications=2), script)
    return folder


def test_show_tells_figures_chart_differences_and_retries(here: Path) -> None:
    answer = lab("show", "made", cwd=here)
    assert answer.code == 0, answer.err
    for part in ("●", "pass@k", "against base", "+0.750", "better", "retries: the mean", "not bounded"):
        assert part in answer.out, part


def test_show_in_plain_ascii_where_the_terminal_knows_no_more(here: Path) -> None:
    answer = lab("show", "made", cwd=here, env={"PYTHONIOENCODING": "ascii", "COLUMNS": "80"})
    assert answer.code == 0
    assert answer.out.isascii()
    assert max(map(len, answer.out.splitlines())) <= 80


@pytest.mark.parametrize("command", ["show", "compare"])
def test_what_is_required_and_not_met_is_exit_4(here: Path, command: str) -> None:
    met = lab(command, "made", "--require", "new > base", "--require-coverage", "0.95", cwd=here)
    assert met.code == 0
    first, second = met.err.splitlines()
    assert first.startswith("note: retries not bounded: 18 of 64 trials needed a retry")
    assert second.startswith("note: new: 56.2% of its trials needed a retry, 0.0% of base's")
    unmet = lab(
        command, "made", "--require", "pass >= 0.9", "--require", "base >= new", "--require-stable", cwd=here
    )
    assert unmet.code == 4
    assert "not met: pass >= 0.9: base's pass is 0.25" in unmet.err
    assert "not met: base >= new: it is worse than that" in unmet.err
    assert "not met: --require-stable: not bounded:" in unmet.err


@pytest.mark.parametrize("command", ["show", "compare"])
def test_how_far_retries_may_have_moved_a_mean_is_the_experiments_own(tmp_path: Path, command: str) -> None:
    grid = make_grid(tasks=16, variants=("base", "new"), replications=2)
    write_run(tmp_path / ".lab" / "runs", replace(grid, retry_margin=0.9), script)
    assert lab(command, "made", "--require-stable", cwd=tmp_path).code == 0
    told = lab(command, "made", "--json", cwd=tmp_path).json()
    shift = told["retry_shift"] if command == "compare" else told["summary"]["ext"]["retry_shift"]
    assert (shift["margin"], shift["answer"]) == (0.9, "bounded")


def test_a_wrong_requirement_is_bad_input_before_anything_is_read(here: Path) -> None:
    answer = lab("show", "no-such-run", "--require", "quick", cwd=here)
    assert answer.code == 2
    assert '--require: expected something like "treatment > baseline"' in answer.err


def test_json_says_what_is_not_met(here: Path) -> None:
    told = lab("show", "made", "--json", "--require", "pass >= 0.9", cwd=here).json()
    assert told["unmet"] == ["pass >= 0.9: base's pass is 0.25"]
    assert told["summary"]["ext"]["comparisons"][0]["conclusion"] == "better"


def test_compare_tells_flips_with_trials_to_look_at(here: Path) -> None:
    answer = lab("compare", "made", cwd=here)
    assert answer.code == 0, answer.err
    assert "new against base: better" in answer.out
    trial = next(word for word in answer.out.split() if word.startswith("t1.base.0-"))
    assert lab("show", "made", trial, cwd=here).code == 0
    told = lab("compare", "made", "--json", cwd=here).json()
    assert told["comparisons"][0]["difference"] == 0.75


def test_query_answers_in_every_format(here: Path, tmp_path: Path) -> None:
    sql = "select variant_id, count(*) as n from trials group by 1 order by 1"
    assert "base        32" in lab("query", "made", sql, cwd=here).out
    assert lab("query", "made", sql, "--format", "csv", cwd=here).out == "variant_id,n\nbase,32\nnew,32\n"
    assert lab("query", "made", sql, "--json", cwd=here).json() == [
        {"variant_id": "base", "n": 32},
        {"variant_id": "new", "n": 32},
    ]
    target = tmp_path / "out.parquet"
    assert lab("query", "made", sql, "--format", "parquet", "-o", target, cwd=here).code == 0
    assert target.read_bytes()[:4] == b"PAR1"
    assert lab("query", "made", sql, "--format", "parquet", cwd=here).code == 2


def test_query_refuses_what_is_no_select_and_runs_that_are_not_there(here: Path) -> None:
    assert lab("query", "made", "drop table trials", cwd=here).code == 2
    assert lab("query", "select 1", cwd=here).code == 2
    assert lab("query", "nope", "select 1", cwd=here).code == 2


@pytest.mark.parametrize("form", ["csv", "json", "table", "parquet"])
def test_a_query_that_fails_midway_leaves_no_file_and_keeps_the_one_before(
    here: Path, tmp_path: Path, form: str
) -> None:
    target = tmp_path / "out"
    bad = "select cast(if(schedule_idx > 60, 'x', '1') as int) as n from trials"
    failed = lab("query", "made", bad, "--format", form, "-o", target, cwd=here)
    assert (failed.code, list(tmp_path.iterdir())) == (2, [])
    target.write_text("before")
    assert lab("query", "made", bad, "--format", form, "-o", target, cwd=here).code == 2
    assert target.read_text() == "before"


def test_a_place_that_an_answer_can_not_be_written_to_is_told(here: Path, tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        told = lab("query", "made", "select 1", "--format", form, "-o", tmp_path / "no" / "out", cwd=here)
        assert told.code not in {0, 1}
        assert f"writing {tmp_path}/no/out: no such file or directory" in told.err


def test_a_device_is_written_to_and_stays_what_it_is(here: Path) -> None:
    told = lab("query", "made", "select 1 as n", "--format", "csv", "-o", "/dev/stdout", cwd=here)
    assert (told.code, told.out) == (0, "n\n1\n")
    assert Path("/dev/stdout").is_symlink()


def test_a_long_table_says_how_much_it_left_out(here: Path) -> None:
    told = lab("query", "made", "select * from range(1000)", cwd=here).out
    assert "and 800 more rows; --format csv or json gives all" in told


@pytest.mark.parametrize("name", ["inspect", "csv", "parquet", "junit", "markdown", "html"])
def test_export_writes_and_says_where(here: Path, tmp_path: Path, name: str) -> None:
    answer = lab("export", "made", "--to", name, "--json", "-o", tmp_path / "out", cwd=here)
    assert answer.code == 0, answer.err
    files = [Path(path) for path in json.loads(answer.out)["files"]]
    assert len(files) == (2 if name == "inspect" else 1)
    assert all(path.stat().st_size > 100 for path in files)


def test_export_to_a_dash_prints(here: Path) -> None:
    printed = lab("export", "made", "--to", "markdown", "-o", "-", cwd=here)
    assert printed.out.startswith("#")
    assert not (here / "-").exists()
    assert "is an archive" in lab("export", "made", "--to", "inspect", "-o", "-", cwd=here).err


def test_a_trial_that_is_not_there_is_answered_with_some_that_are(here: Path) -> None:
    answer = lab("show", "made", "nobody", cwd=here)
    assert answer.code == 2
    assert "no finished trial of this run has 'nobody' in its name; nearest: t" in answer.err


def test_a_format_that_is_not_there_is_bad_input(here: Path) -> None:
    assert lab("export", "made", "--to", "pdf", cwd=here).code == 2


def test_plan_tells_what_it_would_detect_going_by_a_pilot(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    write_run(
        tmp_path / ".lab" / "runs", make_grid(tasks=16, variants=("base", "new"), replications=2), script
    )
    told = lab("plan", "--power", "made", cwd=tmp_path)
    assert told.code == 0, told.err
    assert "smallest true difference that is shown 4 times out of 5" in told.out
    assert "this plan, " in told.out
    (grid,) = lab("plan", "--power", "made", "--json", cwd=tmp_path).json()["power"]
    assert (grid["pilot"]["baseline"], grid["pilot"]["other"]) == ("base", "new")
    detected = lab("plan", "--power", "made", "--detect", "0.2", cwd=tmp_path)
    assert "to show a true difference of 0.2" in detected.out
    beyond = lab("plan", "--power", "made", "--detect", "5", cwd=tmp_path)
    assert beyond.code == 2
    assert "five points of a rate are 0.05" in " ".join(beyond.err.split())
    foreign = lab("doctor", "--power", "made", cwd=tmp_path)
    assert foreign.code == 2
    assert "--power: is not an option of this command" in foreign.err


def test_a_run_that_does_not_meet_what_is_required_ends_with_exit_code_4(tmp_path: Path) -> None:
    write_experiment(tmp_path)

    met = lab("run", "--require", "pass >= 0.5", "--require-coverage", "0.9", cwd=tmp_path)
    unmet = lab("run", "--require", "pass >= 0.9", cwd=tmp_path)
    unknown = lab("run", "--run-id", "never", "--require", "treatment > baseline", cwd=tmp_path)

    assert met.code == 0, met.err
    assert unmet.code == 4
    assert "not met" in unmet.err
    assert unknown.code == 2
    assert not (tmp_path / ".lab/runs/never").exists()


def test_several_trials_that_fit_are_all_named_without_an_ellipsis(here: Path) -> None:
    answer = lab("show", "made", "t3.new", cwd=here)
    assert answer.code == 2
    assert "2 trials have 't3.new' in their name: t3.new.0-" in answer.err
    assert "…" not in answer.err
    assert "..." not in answer.err


def test_show_for_programs_holds_the_run_and_its_summary_as_the_page_says(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    assert lab("run", "--run-id", "one", cwd=tmp_path).code == 0
    told = lab("show", "one", "--json", cwd=tmp_path).json()
    folder = tmp_path / ".lab/runs/one"
    assert {"run", "state", "status", "summary", "unmet"} <= set(told)
    assert told["summary"] == json.loads((folder / "benchmark/summary.json").read_text())
    assert told["status"] == json.loads((folder / "status.json").read_text())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_that_were_altered_are_not_exported(tmp_path: Path, kind: str) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "x", cwd=tmp_path)
    trials = tmp_path / ".lab/runs/x/facts/trials.jsonl"
    trials.write_bytes(trials.read_bytes().replace(b'"verdict":"fail"', b'"verdict":"pass"', 1))

    refused = lab("export", "x", "--to", kind, cwd=tmp_path)

    assert refused.code == 3
    assert "facts/trials.jsonl" in refused.err
    assert not list(tmp_path.glob(f"x.{kind}"))
