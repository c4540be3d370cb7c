import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from labrunner.errors import InputError, StoreError
from labrunner.interop.exporters.cases import Case
from labrunner.interop.exporters.junit import render
from labrunner.interop.exporters.markdown import escape
from labrunner.interop.registry import default_target, export, find_exporter
from labrunner.records.encoding.ids import make_trial_id
from labrunner.runner.reports.lookup import RunInFull, read_in_full
from tests.kit.interop.exported import HOSTILE, TASKS, make_picture
from tests.kit.made_runs import Told, make_grid, write_run


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> RunInFull:
    return make_picture(tmp_path_factory.mktemp("runs"))


def written(seen: RunInFull, name: str, folder: Path) -> str:
    (path,) = export(seen, name, folder / f"out{find_exporter(name).ending}")
    return path.read_text(encoding="utf-8")


def test_csv_has_a_row_a_finished_trial_with_times_and_metrics(seen: RunInFull, tmp_path: Path) -> None:
    rows = list(csv.DictReader(written(seen, "csv", tmp_path).splitlines()))
    assert [int(row["schedule_idx"]) for row in rows] == list(range(11))
    failed = next(row for row in rows if row["outcome"] == "failed")
    assert (failed["cause"], failed["attempts"], failed["value"], failed["message"]) == (
        "grade_error", "2", "", "attempt 2 went wrong",
    )  # fmt: skip
    first = rows[0]
    assert (first["tokens"], first["time_s"], json.loads(first["metrics"])) == ("100.0", "2.25", {"steps": 3})
    assert [row["invalidated"] for row in rows].count("true") == 1


def test_parquet_holds_the_same_rows(seen: RunInFull, tmp_path: Path) -> None:
    import pyarrow.parquet  # type: ignore[import-untyped] # it has no types

    (path,) = export(seen, "parquet", tmp_path / "out.parquet")
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert [row["schedule_idx"] for row in rows] == list(range(11))
    assert sum(row["value"] or 0 for row in rows) == pytest.approx(9.25)


def test_junit_tells_fails_errors_and_what_is_owed_apart(seen: RunInFull, tmp_path: Path) -> None:
    root = ET.fromstring(written(seen, "junit", tmp_path))
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["base", "new"]
    base = suites["base"]
    assert [base.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["6", "1", "1", "1"]
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["12", "1", "1"]
    assert root.get("skipped") is None  # no schema of CI systems has it there
    cases = {(suite.get("name"), case.get("name")): case for suite in root for case in suite}
    assert len(list(cases["base", "plain [0]"])) == 0
    (error,) = cases["base", f"{TASKS[1]} [0]"]
    assert (error.tag, error.get("type"), error.text) == ("error", "grade_error", "attempt 2 went wrong")
    (failure,) = cases["base", "t2 [0]"]
    assert (failure.tag, failure.get("message")) == ("failure", "share = 0.25, ended by timeout")
    looked = f"to look at it: lab show exported {make_trial_id('base', 't2', 0)}"
    assert (failure.text or "").splitlines()[-1] == looked
    (owed,) = cases["new", "t2 [1]"]
    assert (owed.tag, owed.get("message")) == ("skipped", "owed: not run yet")
    (marked,) = cases["base", "t2 [1]"]
    assert (marked.get("message") or "").startswith("not to be used: leaked </script>")
    assert float(cases["base", "plain [0]"].get("time") or 0) == 2.25


def test_markdown_has_the_table_the_differences_and_the_warnings(seen: RunInFull, tmp_path: Path) -> None:
    told = written(seen, "markdown", tmp_path)
    assert "# export &amp; \\<test\\>" in told
    assert re.search(r"^\| base \| 6 \| 4 \| 3 \| 1 \| 1 \| 1 \|", told, re.MULTILINE)
    assert re.search(r"^\| new - base \|", told, re.MULTILINE)
    assert "- base: 1 trial marked as not to be used" in told
    assert "## Retries" in told


def test_markdown_shows_marks_and_does_nothing_with_them() -> None:
    assert escape("a|b *c* <d> `e`\nf") == "a\\|b \\*c\\* \\<d\\> \\`e\\` f"


def test_a_format_that_is_not_there_is_refused_with_those_that_are(seen: RunInFull) -> None:
    with pytest.raises(InputError, match="no format 'pdf'; known: inspect, csv, parquet"):
        export(seen, "pdf", None)


def test_a_place_that_can_not_be_written_is_told(seen: RunInFull, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"writing .*/file/out\.csv"):
        export(seen, "csv", tmp_path / "file" / "out.csv")


def test_files_are_called_like_the_run(seen: RunInFull) -> None:
    assert str(default_target(seen, "junit")) == "exported.junit.xml"
    assert str(default_target(seen, "inspect")) == "exported-inspect"


def test_what_a_sandbox_said_is_text_in_junit_too() -> None:
    case = Case(
        variant_id="a",
        task_id="t",
        repl_idx=0,
        trial_id="x",
        ending="error",
        cause="sandbox",
        message=HOSTILE,
    )
    (suite,) = ET.fromstring("\n".join(render("run", {"a": [case]})))
    (error,) = suite[0]
    assert error.text == HOSTILE.replace("\x1b", "\\x1b").replace("\x00", "\\x00")


def test_a_failure_in_junit_says_what_the_grader_said(tmp_path: Path) -> None:
    told = Told(
        value=0.0, passes=False, metrics={"passed_tests": 3, "why": "two <failed>"}, prediction="an answer"
    )
    run = write_run(tmp_path, make_grid(tasks=1, variants=("a",)), lambda slot: told)
    root = ET.fromstring(written(read_in_full(run), "junit", tmp_path))
    failure = root[0][0][0]
    assert failure.text is not None
    assert failure.text.splitlines()[:3] == [
        "passed_tests = 3", "why = two <failed>", "predicted: an answer",
    ]  # fmt: skip


def test_junit_is_valid_for_jenkins(seen: RunInFull, tmp_path: Path) -> None:
    """Elements and attributes that junit-10.xsd has, as far as we write them."""
    allowed = {
        "testsuites": {"name", "time", "tests", "failures", "errors"},
        "testsuite": {"name", "time", "tests", "failures", "errors", "skipped"},
        "testcase": {"classname", "name", "time"},
        "failure": {"type", "message"},
        "error": {"type", "message"},
        "skipped": {"type", "message"},
    }
    for element in ET.fromstring(written(seen, "junit", tmp_path)).iter():
        assert set(element.attrib) <= allowed[element.tag], element.tag
