"""Instances of SWE-bench and its kin as an experiment: rows of a JSONL, JSON or Parquet file.

Rules: a row must carry how it is judged (`eval_script`, `log_parser`, both lists of tests); one that does not
is refused, and so is one with a field that is unknown and says something. Work is judged by its patch, in a
container that no agent was in; what lies in git behind the commit is taken out before the agent begins.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.problems import Problems, found
from labrunner.experiment.sandbox_kinds import DOCKER
from labrunner.experiment.sources.importers import Imported
from labrunner.experiment.sources.registry import read_rows
from labrunner.experiment.sources.task_rows import Row, SourceRequest
from labrunner.files.layering.layernote import PATCH
from labrunner.interop.importers.foreign_values import escape
from labrunner.interop.importers.shims import read_shim

IMAGE: Final = "swebench/sweb.eval.x86_64.{}:latest"
WORKDIR: Final = "/testbed"
EVAL_S: Final = 1800.0
"""The harness's own default."""
MOST_COMMAND: Final = 48 * 1024
_PYTEST: Final = ("pytest", "astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray")
_OPTIONS: Final = ("pytest_options", "pydicom", "requests", "pylint")
_LATER: Final = ("pytest_v2", "astropy", "scikit", "sphinx")
READERS: Final[Mapping[str, str]] = {
    **{f"parse_log_{name}": "pytest" for name in _PYTEST},
    **{f"parse_log_{name}": "options" for name in _OPTIONS},
    **{f"parse_log_{name}": "later" for name in _LATER},
    **{f"parse_log_{name}": name for name in ("django", "matplotlib", "seaborn", "sympy")},
}
"""Log parsers of the harness by name, and which of ours reads the same."""
_IMAGES: Final = ("image", "image_name", "docker_image")
_TOLD: Final = ("repo", "version", "base_commit", "created_at", "difficulty", "environment_setup_commit")
_LISTS: Final = ("FAIL_TO_PASS", "PASS_TO_PASS")
MAPPED: Final = (
    *("instance_id", "problem_statement", "patch", "eval_script", "log_parser", "eval_type"),
    *(*_LISTS, *_IMAGES, *_TOLD),
)
"""Fields of a row that something follows from."""
IDLE: Final = (
    *("test_patch", "hints_text", "split", "issue_id", "issue_url", "pr_url"),
    *("meta", "license", "license_name", "environment", "install_config", "FAIL_TO_FAIL", "PASS_TO_FAIL"),
)
"""Fields from which nothing follows in a harness either, where a row names its image and its eval script."""
_OF_PRO: Final = "is SWE-bench Pro's, which is judged by a clone of its own; leave it out"
REFUSED: Final[Mapping[str, str]] = {
    "image_assets": "pictures that tests compare with are not fetched",
    "requirements": "SWE-bench Pro tells it to agents: write it into problem_statement, or leave it out",
    "interface": "SWE-bench Pro tells it to agents: write it into problem_statement, or leave it out",
    "fail_to_pass": f"{_OF_PRO}, and write FAIL_TO_PASS",
    "pass_to_pass": f"{_OF_PRO}, and write PASS_TO_PASS",
    "before_repo_set_cmd": _OF_PRO,
    "selected_test_files_to_run": _OF_PRO,
    "dockerhub_tag": f"{_OF_PRO}, and write image",
    "repo_language": _OF_PRO,
    "issue_specificity": _OF_PRO,
    "issue_categories": _OF_PRO,
}
"""Fields that can't be had, and why."""
_FIND_PYTHON: Final = (
    'for python in /opt/miniconda3/bin/python3 python3; do command -v "$python" >/dev/null && '
    'exec "$python" -I -c "$1" "$2"; done; echo "this image has no python3 to grade with" >&2; exit 1'
)


def import_swe_bench(path: Path) -> Imported:
    """Make an experiment of a file of instances."""
    if not path.is_file():
        raise InputError(str(path), "is no file; name a JSONL, JSON or Parquet file of instances")
    problems = Problems()
    request = SourceRequest(
        text=path.name, folder=path.parent, where=str(path), known=(), problems=problems, names={}
    )
    rows, refused = [], {}
    for row in read_rows(request):
        name, task, reasons = _read(row)
        rows.append({"id": name} if reasons else task)
        refused[name] = tuple(reasons)
    problems.stop_if_any()
    fields = {
        "name": path.stem,
        "tasks": rows,
        "sandbox": {"kind": DOCKER, "workdir": WORKDIR},
        "setup": {
            "command": ["sh", "-c", escape(read_shim("swe_bench_setup"))],
            "user": "root",
            "timeout_s": EVAL_S,
        },
        "grader": {
            "command": [
                *("sh", "-c", escape(_FIND_PYTHON), "grade"),
                escape(read_shim("swe_bench_grade.py")),
                escape(read_shim("swe_bench_setup")),
            ],
            "user": "root",
            "network": "full",
            "timeout_s": EVAL_S,
            "retries": 0,
            "where": "pristine",
            "metric": {"name": "resolved", "min": 0, "max": 1},
        },
        "on_system_change": "afresh",
        "collect": [PATCH],
        "metadata": {"git_history": "scrubbed"},
    }
    return Imported(fields=fields, folder=path.parent, refused=refused)


def _read(row: Row) -> tuple[str, dict[str, Any], list[InputError]]:
    """A row as a task: its name, what it becomes, and why it can't be had."""
    data = row.data if isinstance(row.data, dict) else {}
    reasons: list[InputError] = []

    def refuse(field: str, problem: str) -> None:
        reasons.append(InputError(row.origin.where((field,)), problem))

    name = data.get("instance_id")
    if not isinstance(name, str) or not name:
        raise InputError(row.origin.where(("instance_id",)), f"must be text, found {found(name)}")
    _check(data, refuse)
    lists = {field: _tests(data.get(field)) for field in _LISTS}
    for field, tests in lists.items():
        if tests is None:
            refuse(field, f"must be a list of tests, found {found(data.get(field))}")
    return name, {} if reasons else _task(name, data, lists), reasons


def _check(data: Mapping[str, Any], refuse: Callable[[str, str], None]) -> None:
    """Refuse what can't be had of a row, field by field."""
    for field in ("problem_statement", "base_commit", "eval_script", "log_parser"):
        if not isinstance(data.get(field), str) or not data[field].strip():
            told = (
                "nothing says how the work is judged" if field in {"eval_script", "log_parser"} else "needed"
            )
            refuse(field, f"is missing: {told}")
    parser = data.get("log_parser")
    if isinstance(parser, str) and parser and parser not in READERS:
        refuse("log_parser", f"{parser!r} is not read here; known: {', '.join(READERS)}")
    if data.get("eval_type", "pass_and_fail") not in ("pass_and_fail", "fail_only"):
        refuse("eval_type", f"must be pass_and_fail or fail_only, found {found(data['eval_type'])}")
    for field in ("repo", "patch", *_IMAGES):
        if not isinstance(data.get(field), str | None):
            refuse(field, f"must be text, found {found(data[field])}")
    for field, value in data.items():
        if field not in (*MAPPED, *IDLE) and value not in (None, "", "{}", "[]", {}, []):
            refuse(field, REFUSED.get(field, "is no field of SWE-bench's rows or their kin; leave it out"))


def _task(name: str, data: Mapping[str, Any], lists: Mapping[str, list[str] | None]) -> dict[str, Any]:
    task = {
        "id": name,
        "prompt": data["problem_statement"],
        "image": escape(_image(name, data)),
        "target": {
            **lists,
            "base_commit": data["base_commit"],
            "eval_script": data["eval_script"],
            "reader": READERS[data["log_parser"]],
            "eval_type": data.get("eval_type", "pass_and_fail"),
        },
        "group": data.get("repo"),
        "metadata": {field: data[field] for field in _TOLD if data.get(field) is not None},
        "solution": _solution(data.get("patch")),
    }
    return {field: value for field, value in task.items() if value is not None}


def _image(name: str, data: Mapping[str, Any]) -> str:
    """The image that a row names, or the one that its name stands for."""
    named = next((data[field] for field in _IMAGES if data.get(field)), None)
    return str(named) if named is not None else IMAGE.format(name.lower().replace("__", "_1776_"))


def _solution(patch: object) -> dict[str, Any] | None:
    """The gold patch, applied; none where it is too long for a command."""
    if not isinstance(patch, str) or not patch.strip() or len(patch.encode()) > MOST_COMMAND:
        return None
    return {"command": ["sh", "-c", escape('printf %s "$1" | git apply -'), "solve", escape(patch)]}


def _tests(value: object) -> list[str] | None:
    """A list of tests, or the JSON of one, as data sets write it."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return value if isinstance(value, list) and is_list else None
