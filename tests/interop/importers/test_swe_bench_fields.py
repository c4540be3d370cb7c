"""Every field of a row of SWE-bench and its kin goes into the task, means nothing, or is refused by name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from labrunner.interop.importers.swe_bench import IDLE, MAPPED, REFUSED, import_swe_bench

# Columns, as they are published. SWE-bench: `SWEbenchInstance` and `TestSpec` of swebench 5.0.2, and what its
# guide to data sets names beside them. SWE-smith: what `swesmith` 0.0.9 gathers, with its written issues.
SWE_BENCH = (
    "repo instance_id base_commit patch test_patch problem_statement hints_text created_at version "
    "FAIL_TO_PASS PASS_TO_PASS environment_setup_commit image eval_script log_parser eval_type image_assets "
    "split difficulty issue_id issue_url pr_url"
)
SWE_SMITH = "instance_id patch FAIL_TO_PASS PASS_TO_PASS image_name repo problem_statement"
SWE_REBENCH = (
    "instance_id base_commit created_at environment environment_setup_commit FAIL_TO_PASS FAIL_TO_FAIL "
    "PASS_TO_PASS PASS_TO_FAIL hints_text install_config license_name meta patch problem_statement repo "
    "requirements test_patch version docker_image image_name"
)
SWE_BENCH_EXTRA = (
    "instance_id patch repo base_commit hints_text test_patch problem_statement version "
    "environment_setup_commit FAIL_TO_PASS PASS_TO_PASS meta created_at license"
)
SWE_BENCH_PRO = (
    "repo instance_id base_commit patch test_patch problem_statement requirements interface repo_language "
    "fail_to_pass pass_to_pass issue_specificity issue_categories before_repo_set_cmd "
    "selected_test_files_to_run dockerhub_tag"
)
PUBLISHED = {
    "SWE-bench": SWE_BENCH,
    "SWE-smith": SWE_SMITH,
    "SWE-rebench": SWE_REBENCH,
    "SWE-bench-extra": SWE_BENCH_EXTRA,
    "SWE-bench Pro": SWE_BENCH_PRO,
}
EVERY = sorted({field for fields in PUBLISHED.values() for field in fields.split()})

LEAST: Mapping[str, Any] = {
    "instance_id": "team__repo-7",
    "problem_statement": "It is broken.",
    "base_commit": "a" * 40,
    "eval_script": "true",
    "log_parser": "parse_log_pytest",
    "FAIL_TO_PASS": ["new"],
    "PASS_TO_PASS": ["old"],
}
"""A row that is a task."""
OTHERS: Mapping[str, Any] = {
    "log_parser": "parse_log_django",
    "eval_type": "fail_only",
    "FAIL_TO_PASS": ["other"],
    "PASS_TO_PASS": ["other"],
    "version": 7,
}
"""What a field may say else."""


def read(folder: Path, row: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """A row as a task, and which fields of it are refused."""
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    found = import_swe_bench(path)
    [task], [refused] = found.fields["tasks"], found.refused.values()
    return task, [each.where.removeprefix(f"{path}:1: ") for each in refused]


def test_every_published_field_stands_in_one_table() -> None:
    assert sorted([*MAPPED, *IDLE, *REFUSED]) == EVERY


@pytest.mark.parametrize("field", MAPPED)
def test_something_follows_from_a_field_that_is_mapped(field: str, tmp_path: Path) -> None:
    before, _ = read(tmp_path, LEAST)
    after, refused = read(tmp_path, {**LEAST, field: OTHERS.get(field, "another")})
    assert refused == []
    assert after != before


@pytest.mark.parametrize("field", IDLE)
def test_nothing_follows_from_a_field_that_means_nothing(field: str, tmp_path: Path) -> None:
    for value in ("some words", {"a": 1}, None):
        assert read(tmp_path, {**LEAST, field: value}) == read(tmp_path, LEAST)


@pytest.mark.parametrize("field", [*REFUSED, "colour", "evalscript"])
def test_a_field_that_cant_be_had_or_is_unknown_is_refused_by_name(field: str, tmp_path: Path) -> None:
    assert read(tmp_path, {**LEAST, field: "some words"})[1] == [field]
    nothings: tuple[object, ...] = (None, "", [], {}, "{}")
    for nothing in nothings:
        assert read(tmp_path, {**LEAST, field: nothing}) == read(tmp_path, LEAST)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("SWE-smith", {"eval_script", "log_parser", "base_commit"}),
        ("SWE-rebench", {"eval_script", "log_parser", "requirements"}),
        ("SWE-bench-extra", {"eval_script", "log_parser"}),
        ("SWE-bench Pro", {"eval_script", "log_parser", "FAIL_TO_PASS", "PASS_TO_PASS", "dockerhub_tag"}),
    ],
)
def test_rows_of_its_kin_as_they_are_published_are_refused_by_what_they_lack(
    name: str, wanted: set[str], tmp_path: Path
) -> None:
    said = {field: OTHERS.get(field, LEAST.get(field, "words")) for field in PUBLISHED[name].split()}
    _, refused = read(tmp_path, said)
    assert wanted <= set(refused)
    assert not [field for field in refused if field in said and field not in REFUSED]
