"""Instances of SWE-bench as tasks, and their logs read as the harness reads them."""

# ruff: noqa: E501 - logs stand as they are printed

import json
from pathlib import Path
from typing import Any

import pytest

from labrunner.errors import InputError
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolving.load import load
from labrunner.interop.importers.shims.swe_bench_grade import END, EXIT, READERS, START, judge, read_log
from labrunner.interop.importers.swe_bench import READERS as KNOWN
from labrunner.interop.importers.swe_bench import import_swe_bench

ANY_AGENT = Overrides(sets=(("agent.command", "[run-agent]"),))
INSTANCE: dict[str, Any] = {
    "instance_id": "team__repo-7",
    "repo": "team/repo",
    "version": "1.0",
    "base_commit": "a" * 40,
    "problem_statement": "It is broken.",
    "patch": "diff --git a/x b/x\n",
    "test_patch": "diff --git a/t b/t\n",
    "FAIL_TO_PASS": '["t.py::test_new"]',
    "PASS_TO_PASS": ["t.py::test_old"],
    "eval_script": f"#!/bin/bash\nset -uxo pipefail\n: '{START}'\npytest -rA t.py\n: '{END}'\n",
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
}


def write_instances(path: Path, *changes: dict[str, Any]) -> Path:
    lines = (json.dumps({**INSTANCE, **change}) for change in changes)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_an_instance_is_a_task_in_its_image(tmp_path: Path) -> None:
    experiment = load(Path(f"swe-bench:{write_instances(tmp_path / 'dev.jsonl', {})}"), ANY_AGENT)
    [task] = experiment.tasks
    assert (task.id, task.prompt, task.group) == ("team__repo-7", "It is broken.", "team/repo")
    assert task.image == "swebench/sweb.eval.x86_64.team_1776_repo-7:latest"
    assert experiment.variants[0].sandbox.workdir == "/testbed"
    assert task.target["FAIL_TO_PASS"] == ["t.py::test_new"]
    assert task.target["PASS_TO_PASS"] == ["t.py::test_old"]
    assert (task.grader.where, task.grader.timeout_s) == ("pristine", 1800)
    assert experiment.collect == ("patch",)
    assert experiment.metadata == {"git_history": "scrubbed"}
    assert task.solution is not None
    assert INSTANCE["patch"] in task.solution.command


@pytest.mark.parametrize("field", ["image", "image_name", "docker_image"])
def test_an_image_that_a_row_names_is_taken(field: str, tmp_path: Path) -> None:
    path = write_instances(tmp_path / "dev.jsonl", {field: "team/own:1"})
    assert load(Path(f"swe-bench:{path}"), ANY_AGENT).tasks[0].image == "team/own:1"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"eval_script": None}, "eval_script"),
        ({"log_parser": ""}, "log_parser"),
        ({"log_parser": "parse_log_cargo"}, "log_parser"),
        ({"eval_type": "some"}, "eval_type"),
        ({"eval_type": ["fail_only"]}, "eval_type"),
        ({"image": 5}, "image"),
        ({"repo": ["a"]}, "repo"),
        ({"FAIL_TO_PASS": "no list"}, "FAIL_TO_PASS"),
        ({"image_assets": {"test_patch": [1]}}, "image_assets"),
        ({"base_commit": None}, "base_commit"),
    ],
)
def test_a_row_that_cant_be_judged_is_refused_by_file_line_and_field(
    change: dict[str, Any], field: str, tmp_path: Path
) -> None:
    path = write_instances(tmp_path / "dev.jsonl", {"instance_id": "fine"}, change)
    refused = import_swe_bench(path).refused
    assert refused["fine"] == ()
    assert [each.where for each in refused["team__repo-7"]] == [f"{path}:2: {field}"]


def test_a_row_without_a_name_is_refused(tmp_path: Path) -> None:
    path = write_instances(tmp_path / "dev.jsonl", {"instance_id": None})
    with pytest.raises(InputError, match=r"dev\.jsonl:1: instance_id: must be text"):
        import_swe_bench(path)


def test_every_parser_that_is_known_has_a_reader() -> None:
    assert set(KNOWN.values()) == set(READERS)


# A log, by who reads it, and what it says.
LOGS = {
    "pytest": (
        "PASSED t.py::a[x y]\nFAILED t.py::b - no - way\nSKIPPED [2] t.py:3: later\nERROR t.py::c\nXFAIL t.py::d\n",
        {"t.py::a[x": "PASSED", "t.py::b": "FAILED", "t.py::c": "ERROR", "t.py::d": "XFAIL"},
    ),
    "options": ("PASSED t.py::a[/tmp/x/y]\nPASSED t.py::b[//net]\n", {"t.py::a[/y]": "PASSED", "t.py::b[//net]": "PASSED"}),
    "later": (
        "\x1b[32mPASSED\x1b[0m t.py::a[x y]\nFAILED t.py::b - no - way\nt.py::old PASSED\n",
        {"t.py::a[x y]": "PASSED", "t.py::b": "FAILED", "t.py::old": "PASSED"},
    ),
    "django": (
        "test_a (m.T) ... ok\ntest_b (m.T) ... FAIL\ntest_c (m.T) ... skipped 'no'\ntest_d (m.T) ... noise\nok\nERROR: test_e\n",
        {
            "test_a (m.T)": "PASSED",
            "test_b (m.T)": "FAILED",
            "test_c (m.T)": "SKIPPED",
            "test_d (m.T)": "PASSED",
            "test_e": "ERROR",
        },
    ),
    "matplotlib": ("PASSED t.py::a[MouseButton.LEFT]\n", {"t.py::a[1]": "PASSED"}),
    "seaborn": ("t.py::a PASSED [ 5%]\nFAILED t.py::b - x\nPASSED t.py::c\n", {"t.py::a": "PASSED", "t.py::b": "FAILED", "t.py::c": "PASSED"}),
    "sympy": ("test_a ok\ntest_b F\ntest_c E\n____ sympy/x.py:test_d ____\n", {"test_a": "PASSED", "test_b": "FAILED", "test_c": "ERROR", "sympy/x.py:test_d": "FAILED"}),
}  # fmt: skip


@pytest.mark.parametrize("reader", LOGS)
def test_a_log_is_read_by_the_reader_that_its_row_names(reader: str) -> None:
    text, wanted = LOGS[reader]
    assert read_log(f"noise\n{START}\n{text}{END}\n", READERS[reader]) == wanted


@pytest.mark.parametrize(
    "content",
    [
        "PASSED a\n",
        f"{START}\nPASSED a\n{END}\n>>>>> Tests Timed Out\n",
        f"{START}\nnothing ran\n{END}\n",
        f"{START}\nPASSED a\n{END}\n{EXIT}: 1\n",
    ],
    ids=["no marks", "timed out", "no tests", "passes that a bad exit denies"],
)
def test_a_log_that_does_not_tell_is_no_pass(content: str) -> None:
    assert read_log(content, READERS["pytest"]) is None
    told = judge(None, {"FAIL_TO_PASS": ["a"], "PASS_TO_PASS": []})
    assert (told["score"], told["metrics"]["log_read"]) == (0, False)


@pytest.mark.parametrize(
    ("found", "score", "counts"),
    [
        ({"new": "PASSED", "old": "PASSED"}, 1, (1, 1)),
        ({"new": "XFAIL", "old": "SKIPPED"}, 1, (1, 1)),
        ({"new": "SKIPPED", "old": "PASSED"}, 0, (0, 1)),
        ({"new": "PASSED", "old": "FAILED"}, 0, (1, 0)),
        ({"new": "PASSED"}, 0, (1, 0)),
    ],
)
def test_an_instance_is_resolved_when_both_lists_hold(
    found: dict[str, str], score: int, counts: tuple[int, int]
) -> None:
    told = judge(found, {"FAIL_TO_PASS": ["new"], "PASS_TO_PASS": ["old"], "eval_type": "pass_and_fail"})
    metrics = told["metrics"]
    assert (told["score"], (metrics["FAIL_TO_PASS"], metrics["PASS_TO_PASS"])) == (score, counts)


def test_names_that_were_cut_in_their_brackets_are_found_by_how_they_begin() -> None:
    asked = {"FAIL_TO_PASS": ["t[log(photon"], "PASS_TO_PASS": []}
    assert judge({"t[log(photon /s)]": "PASSED"}, asked)["score"] == 1
    assert judge({"t[log(photon /s)]": "PASSED", "t[log(photon x)]": "FAILED"}, asked)["score"] == 0


def test_where_only_failures_are_told_what_is_not_told_has_passed() -> None:
    asked = {"FAIL_TO_PASS": ["new"], "PASS_TO_PASS": ["old"], "eval_type": "fail_only"}
    assert judge({"other": "FAILED"}, asked)["score"] == 1
    assert judge({"old": "FAILED"}, asked)["score"] == 0
