"""Task files that have names of their own: Parquet, JSONL and CSV, by `tasks: {file, fields}`."""

from pathlib import Path

import duckdb
import pytest

from tests.kit.experiment.authoring import AGENT, GRADER, Bench

HEAD = f"name: small\n{AGENT}{GRADER}"
FIELDS = "{id: instance_id, input: problem_statement, metadata.repo: repo}"


def write_parquet(path: Path, select: str) -> None:
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")


def write_rows(bench: Bench, kind: str) -> str:
    """The same two rows in a file of a kind, with a column that nobody asks for."""
    name = f"rows.{kind}"
    if kind == "parquet":
        rows = "('a-1', 'Mend it', 'x/y', 'secret'), ('b-2', 'Say \"ü\"', NULL, 'secret')"
        write_parquet(
            bench.root / name, f"SELECT * FROM (VALUES {rows}) t(instance_id, problem_statement, repo, patch)"
        )
    elif kind == "jsonl":
        lines = [
            '{"instance_id": "a-1", "problem_statement": "Mend it", "repo": "x/y", "patch": "secret"}',
            '{"instance_id": "b-2", "problem_statement": "Say \\"ü\\"", "repo": null, "patch": "secret"}',
        ]
        (bench.root / name).write_text("\n".join(lines), encoding="utf-8")
    else:
        text = 'instance_id,problem_statement,repo,patch\na-1,Mend it,x/y,secret\nb-2,"Say ""ü""",,secret\n'
        (bench.root / name).write_text(text, encoding="utf-8")
    return name


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_fields_say_what_a_file_calls_them_and_nothing_else_is_taken(bench: Bench, kind: str) -> None:
    name = write_rows(bench, kind)
    tasks = bench.load(f"{HEAD}tasks: {{file: {name}, fields: {FIELDS}}}\n").tasks
    assert [(task.id, task.input, task.metadata) for task in tasks] == [
        ("a-1", "Mend it", {"repo": "x/y"}),
        ("b-2", 'Say "ü"', {}),
    ]


def test_the_same_rows_have_the_same_digest_whatever_they_are_read_from(bench: Bench) -> None:
    digests = {
        bench.load(f"{HEAD}tasks: {{file: {write_rows(bench, kind)}, fields: {FIELDS}}}\n").digest
        for kind in ("parquet", "jsonl", "csv")
    }
    assert len(digests) == 1


def test_a_parquet_file_with_our_names_needs_no_fields(bench: Bench) -> None:
    select = "SELECT 'a' AS id, {'question': 'why', 'n': 3} AS input, ['x', 'y'] AS tags"
    write_parquet(bench.root / "t.parquet", select)
    [task] = bench.load(f"{HEAD}tasks: t.parquet\n").tasks
    assert (task.id, task.input, task.tags) == ("a", {"question": "why", "n": 3}, ("x", "y"))


def test_ids_that_are_whole_numbers_become_text(bench: Bench) -> None:
    write_parquet(bench.root / "t.parquet", "SELECT 7 AS number, 'x' AS text")
    [task] = bench.load(f"{HEAD}tasks: {{file: t.parquet, fields: {{id: number, input: text}}}}\n").tasks
    assert task.id == "7"


# Where the same row is said to stand, by the kind of file, and of how many rows it is said.
WRONG = {"parquet": "rows.parquet", "jsonl": "rows.jsonl:1", "csv": "rows.csv:2"}
MISSING = "title: there is no such column{}; there are: instance_id, problem_statement, repo, patch"


@pytest.mark.parametrize("kind", WRONG)
def test_a_missing_column_is_refused_with_those_that_are_there(bench: Bench, kind: str) -> None:
    name = write_rows(bench, kind)
    told = bench.complaint(f"{HEAD}tasks: {{file: {name}, fields: {{id: instance_id, input: title}}}}\n")
    of = "" if kind == "parquet" else " in any of 2 rows"
    assert [line for line in told.splitlines() if "title" in line] == [f"{WRONG[kind]}: {MISSING.format(of)}"]


def test_a_column_that_some_rows_lack_is_said_once_with_their_number(bench: Bench) -> None:
    lines = ['{"id": "a", "q": "x"}', *(f'{{"id": "b{n}"}}' for n in range(70))]
    (bench.root / "t.jsonl").write_text("\n".join(lines))
    told = bench.complaint(f"{HEAD}tasks: {{file: t.jsonl, fields: {{id: id, input: q}}}}\n")
    assert told == "t.jsonl:2: q: there is no such column in 70 of 71 rows, here first; there are: id"


def test_what_is_wrong_with_a_field_of_many_rows_is_said_once_with_their_number(bench: Bench) -> None:
    (bench.root / "t.jsonl").write_text("".join(f'{{"id": "b{n}", "q": "x", "t": 5}}\n' for n in range(70)))
    told = bench.complaint(f"{HEAD}tasks: {{file: t.jsonl, fields: {{id: id, input: q, image: t}}}}\n")
    assert told == "t.jsonl:1: image: must be text, found the number 5; quote it (and so in 69 more rows)"


@pytest.mark.parametrize(
    "fields", ["{id: id, input: q, input.prompt: p}", "{id: id, input.prompt: p, input: q}"]
)
def test_a_field_beside_a_part_of_it_is_refused_and_not_dropped(bench: Bench, fields: str) -> None:
    (bench.root / "t.jsonl").write_text('{"id": "a", "q": "x", "p": "y"}\n')
    told = bench.complaint(f"{HEAD}tasks: {{file: t.jsonl, fields: {fields}}}\n")
    assert told.endswith(
        "fields: 'input.prompt' stands beside 'input', which sets all of it; keep one of them"
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("{input: problem_statement}", "tasks.file: fields: must say what the file calls id"),
        (
            "{id: instance_id, prmpt: repo}",
            "fields: no field of a task is called 'prmpt'; known fields: id, input",
        ),
    ],
)
def test_fields_that_make_no_task_are_refused(bench: Bench, fields: str, told: str) -> None:
    name = write_rows(bench, "jsonl")
    assert told in bench.complaint(f"{HEAD}tasks: {{file: {name}, fields: {fields}}}\n")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("'x'::BLOB", "blob"),
        ("[{'bytes': 'x'::BLOB, 'path': 'a.png'}]", "blob"),
        ("1.5::DECIMAL(4,2)", "decimal"),
    ],
)
def test_images_and_other_values_that_are_no_json_are_refused(bench: Bench, value: str, kind: str) -> None:
    write_parquet(bench.root / "t.parquet", f"SELECT 'a' AS id, {value} AS picture")
    told = bench.complaint(f"{HEAD}tasks: {{file: t.parquet, fields: {{id: id, input: picture}}}}\n")
    assert told.startswith(f"t.parquet: picture: holds values of the type {kind}, which no task can")


def test_what_is_no_parquet_file_is_refused(bench: Bench) -> None:
    (bench.root / "t.parquet").write_text("id,input\n")
    told = bench.complaint(f"{HEAD}tasks: t.parquet\n")
    assert told.startswith("t.parquet: can't be read as Parquet:")
    assert "there is no such file" in bench.complaint(f"{HEAD}tasks: u.parquet\n")
