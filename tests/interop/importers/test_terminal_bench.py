"""Task folders of terminal-bench before Harbor as experiments."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from labrunner.errors import InputError
from labrunner.interop.importers.terminal_bench import MAPPED, TOLD, import_terminal_bench
from tests.kit.interop.terminal_bench_tasks import COMPOSE, YAML, write_classic


def refusals_of(folder: Path) -> list[InputError]:
    return list(import_terminal_bench(folder).refused[folder.name])


def test_a_task_works_where_its_compose_file_or_its_dockerfile_says(tmp_path: Path) -> None:
    write_classic(tmp_path / "set" / "a")
    write_classic(tmp_path / "set" / "b", compose=COMPOSE.replace("image:", "working_dir: /own\n    image:"))
    imported = import_terminal_bench(tmp_path / "set")
    assert imported.refused == {"a": (), "b": ()}
    assert [row["workdir"] for row in imported.fields["tasks"]] == ["/app", "/own"]


@pytest.mark.parametrize(
    ("line", "where", "problem"),
    [
        ("ENTRYPOINT serve", "Dockerfile: ENTRYPOINT", "would not be run"),
        ("HEALTHCHECK CMD true", "Dockerfile: HEALTHCHECK", "not run here"),
        ("RUN --mount=type=cache,target=/c true", "Dockerfile", "BuildKit"),
    ],
)
@pytest.mark.parametrize("compose", [COMPOSE, COMPOSE.replace("image:", "working_dir: /own\n    image:")])
def test_a_dockerfile_that_means_something_else_is_refused_wherever_work_lies(
    line: str, where: str, problem: str, compose: str, tmp_path: Path
) -> None:
    folder = write_classic(tmp_path / "one", compose=compose)
    (folder / "Dockerfile").write_text(f"FROM base\nWORKDIR /app\n{line}\n")
    [refusal] = refusals_of(folder)
    assert refusal.where == f"{folder}/{where}"
    assert problem in refusal.problem


def test_a_dockerfile_that_is_no_text_refuses_its_own_task_only(tmp_path: Path) -> None:
    write_classic(tmp_path / "fine")
    folder = write_classic(
        tmp_path / "odd", compose=COMPOSE.replace("image:", "working_dir: /own\n    image:")
    )
    (folder / "Dockerfile").write_bytes(b"FROM base\nLABEL a=\xff\n")
    refused = import_terminal_bench(tmp_path).refused
    assert refused["fine"] == ()
    assert [str(each) for each in refused["odd"]] == [f"{folder}/Dockerfile: is not UTF-8 text (byte 18)"]


@pytest.mark.parametrize("name", ["task.yaml", "docker-compose.yaml", "Dockerfile", "tests"])
def test_no_link_of_a_classic_task_carries_a_file_of_this_machine_into_its_container(
    name: str, tmp_path: Path
) -> None:
    folder = write_classic(tmp_path / "one")
    (folder / name).rename(tmp_path / "secret")
    (folder / name).symlink_to(tmp_path / "secret")
    assert [str(each) for each in refusals_of(folder)] == [f"{folder}/{name}: leads out of the task's folder"]


# Of `Task` in terminal-bench 0.2.18.
SCHEMA = (
    "instruction author_name author_email difficulty category tags parser_name max_agent_timeout_sec "
    "max_test_timeout_sec run_tests_in_same_shell disable_asciinema estimated_duration_sec "
    "expert_time_estimate_min junior_time_estimate_min"
)


def test_every_field_of_the_schema_is_known() -> None:
    assert sorted(SCHEMA.split()) == sorted(MAPPED)


# A field, and two things that it may say; the second may be refused.
SPEAKS = {
    "instruction": ("one", "another"),
    "tags": (["a"], ["b"]),
    "parser_name": ("pytest", "swebench"),
    "max_agent_timeout_sec": (60, 61.5),
    "max_test_timeout_sec": (60, 61.5),
    "run_tests_in_same_shell": (False, True),
    **dict.fromkeys(TOLD, ("a", "b")),
}
IDLE = ("disable_asciinema",)
"""What the harness records of its own terminal."""


def read(folder: Path, **changes: object) -> tuple[dict[str, Any], list[str]]:
    yaml = msgspec.yaml.decode(YAML.encode()) | changes
    write_classic(folder / "one", yaml=msgspec.yaml.encode(yaml).decode())
    imported = import_terminal_bench(folder / "one")
    [row] = imported.fields["tasks"]
    return row, [each.where for each in imported.refused["one"]]


@pytest.mark.parametrize("name", SPEAKS)
def test_what_a_mapped_field_says_makes_a_difference_or_is_refused(name: str, tmp_path: Path) -> None:
    found = [read(tmp_path, **{name: value}) for value in SPEAKS[name]]
    assert found[0] != found[1]
    assert found[0][1] == []
    assert found[1][1] in ([], [f"{tmp_path}/one/task.yaml: {name}"])


def test_every_field_is_tried() -> None:
    assert sorted([*SPEAKS, *IDLE]) == sorted(MAPPED)


@pytest.mark.parametrize("name", IDLE)
def test_nothing_follows_from_what_means_nothing_here(name: str, tmp_path: Path) -> None:
    assert read(tmp_path, **{name: True}) == read(tmp_path) == read(tmp_path, **{name: False})


@pytest.mark.parametrize("name", [*MAPPED, "colour"])
def test_whatever_a_field_holds_is_taken_or_refused_by_its_name(name: str, tmp_path: Path) -> None:
    for value in (True, 0, -1, "x", "", [], [1], {"a": 1}):
        _, refused = read(tmp_path, **{name: value})
        assert refused in ([], [f"{tmp_path}/one/task.yaml: {name}"]), value
        assert refused or name != "colour"
