import json
import os

import pytest

from labrunner.experiment.resolved import TaskSpec
from tests.kit.experiment.authoring import AGENT, GRADER, Bench

HEAD = f"name: small\n{AGENT}{GRADER}"

# Task files: name, content, and what is said about them.
BROKEN_TASK_FILES: dict[str, tuple[str, str, str]] = {
    "JSONL that is no JSON": (
        "t.jsonl",
        '{"id": "a", "input": 1}\n\n{"id": \n',
        "t.jsonl:3: is not valid JSON: Expecting value: line 1 column 8 (char 7)",
    ),
    "a number as id in JSONL": (
        "t.jsonl",
        '{"id": 12, "input": 1}\n',
        't.jsonl:1: id: ids are text, found the number 12; quote it: "12"',
    ),
    "the same id twice in JSONL": (
        "t.jsonl",
        '{"id": "a", "input": 1}\n{"id": "b", "input": 1}\n{"id": "a", "input": 1}\n',
        "t.jsonl:3: id: there is another task 'a' (t.jsonl:1: id); ids must differ",
    ),
    "NaN in JSONL": (
        "t.jsonl",
        '{"id": "a", "input": NaN}\n',
        "t.jsonl:1: is not valid JSON: NaN is no JSON number",
    ),
    "a number too large for JSON": (
        "t.jsonl",
        '{"id": "a", "input": [1e999]}\n',
        "t.jsonl:1: input: holds a number that JSON can't hold (too large, or no number)",
    ),
    "half a character": (
        "t.jsonl",
        '{"id": "a", "input": "\\ud83d"}\n',
        "t.jsonl:1: input: holds half of a character (a lone surrogate), which can't be written as UTF-8",
    ),
    "half a character in a prompt": (
        "t.jsonl",
        '{"id": "a", "prompt": "\\ud83d"}\n',
        "t.jsonl:1: prompt: holds half of a character (a lone surrogate), which can't be written as UTF-8",
    ),
    "a key twice in JSONL": (
        "t.jsonl",
        '{"id": "a", "input": 1, "input": 2}\n',
        "t.jsonl:1: is not valid JSON: 'input' stands twice in the same map",
    ),
    "JSON without a list": (
        "t.json",
        '{"rows": []}',
        't.json: must be a list of tasks, or {"tasks": […]}, found a map',
    ),
    "a wrong task in JSON": (
        "t.json",
        '{"tasks": [{"id": "a", "input": 1}, {"id": "b", "inputs": 1}]}',
        "t.json: task 1: inputs: there is no such field; did you mean 'input'?",
    ),
    "CSV without ids": (
        "t.csv",
        "name,input\na,b\n",
        "t.csv:1: the first line must name the columns, and one of them must be id",
    ),
    "CSV with a column twice": (
        "t.csv",
        "id,input,input:json\na,b,1\n",
        "t.csv:1: the column 'input' must have a name of its own",
    ),
    "CSV with a cell too many": (
        "t.csv",
        'id,input\na,"two\nlines"\nb,c,d\n',
        "t.csv:4: has 3 cells, but the first line names 2 columns",
    ),
    "CSV with a cell that is no JSON": (
        "t.csv",
        "id,input,target:json\na,b,{x\n",
        "t.csv:2: target:json: is not valid JSON: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
    ),
    "CSV without an id": (
        "t.csv",
        "id,input\n,b\n",
        "t.csv:2: id: is missing; text that no other one here has",
    ),
    "CSV with an unknown column": (
        "t.csv",
        "id,input,levle\na,b,1\n",
        "t.csv:1: no field of a task is called like the column 'levle'; rename to input or target, "
        "to input.levle, or to metadata.levle (which agents don't see); known fields: "
        "id, input, prompt, target, solution, image, build, build_timeout_s, workdir, workspace, files, "
        "setup, agent, timeout_s, grader, collect, group, tags, env, metadata, resources",
    ),
    "CSV with columns of somebody else's": (
        "t.csv",
        "id,question,answer\na,b,c\nd,e,f\n",
        "t.csv:1: no field of a task is called like the columns 'question', 'answer'; rename to input or "
        "target, to input.question, or to metadata.question (which agents don't see); known fields: "
        "id, input, prompt, target, solution, image, build, build_timeout_s, workdir, workspace, files, "
        "setup, agent, timeout_s, grader, collect, group, tags, env, metadata, resources",
    ),
    "CSV with a number where cells are text": (
        "t.csv",
        "id,input,timeout_s\na,b,5\n",
        "t.csv:2: timeout_s: must be a number, found text '5'",
    ),
    "a task file without tasks": (
        "t.csv",
        "id,input\n",
        "experiment.yaml:4: tasks: holds no task; one row a task, with id and input",
    ),
}


@pytest.mark.parametrize(
    ("file", "content", "message"), BROKEN_TASK_FILES.values(), ids=BROKEN_TASK_FILES.keys()
)
def test_a_broken_task_file_is_refused_with_its_line(
    bench: Bench, file: str, content: str, message: str
) -> None:
    (bench.root / file).write_text(content)
    assert bench.complaint(f"{HEAD}tasks: {file}\n") == message


def test_a_file_that_is_no_text_is_refused(bench: Bench) -> None:
    (bench.root / "t.csv").write_bytes(b"id,input\na,\xff\n")
    assert "'t.csv' is not UTF-8 text (byte 11); save it as UTF-8" in bench.complaint(f"{HEAD}tasks: t.csv\n")


def tasks(bench: Bench, file: str, content: str) -> tuple[TaskSpec, ...]:
    (bench.root / file).write_bytes(content.encode())
    return bench.load(f"{HEAD}tasks: {file}\n").tasks


ROWS = [
    {"id": "a", "input": "do a", "target": 4, "group": "g", "tags": ["x", "y"]},
    {"id": "007", "input": {"prompt": "do b", "n": [1, 2.5, None]}, "metadata": {"level": "hard"}},
]


def test_the_same_rows_mean_the_same_in_every_kind_of_file(bench: Bench) -> None:
    jsonl = "\n".join(json.dumps(row) for row in ROWS)
    cells = "id,input,input.prompt,input.n:json,target:json,group,tags,metadata.level\n"
    cells += 'a,do a,,,4,g,"x, y",\n007,,do b,"[1, 2.5, null]",,,,hard\n'
    read = [
        tasks(bench, "t.jsonl", jsonl),
        tasks(bench, "t.json", json.dumps(ROWS)),
        tasks(bench, "u.json", json.dumps({"tasks": ROWS})),
        tasks(bench, "t.csv", cells),
        bench.load(f"{HEAD}tasks: {json.dumps(ROWS)}\n").tasks,
    ]
    assert [task.prompt for task in read[0]] == ["do a", "do b"]
    assert read[0][0].target == 4
    assert read[0][0].tags == ("x", "y")
    assert all(other == read[0] for other in read[1:])


def test_cells_of_csv_are_text_whatever_they_look_like(bench: Bench) -> None:
    (task,) = tasks(bench, "t.csv", 'id,input,target\r\n12,"[1]",007\r\n')
    assert (task.id, task.input, task.target) == ("12", "[1]", "007")


def test_cells_keep_their_own_line_ends(bench: Bench) -> None:
    first, second = tasks(bench, "t.csv", 'id,input\na,"x\r\ny\u2028z"\nb,plain\u2028text\n')
    assert first.input == "x\r\ny\u2028z"
    assert second.input == "plain\u2028text"


def test_a_cell_may_be_as_long_as_a_long_prompt(bench: Bench) -> None:
    (task,) = tasks(bench, "t.csv", f"id,input\na,{'x' * 300_000}\n")
    assert task.input == "x" * 300_000


def test_an_empty_cell_leaves_its_field_out(bench: Bench) -> None:
    (task,) = tasks(bench, "t.csv", "id,input,target,group\na,x,,\n")
    assert not task.has_target
    assert task.group is None


def test_a_target_of_null_is_a_target(bench: Bench) -> None:
    without, null = tasks(
        bench, "t.jsonl", '{"id": "a", "input": 1}\n{"id": "b", "input": 1, "target": null}'
    )
    assert (without.has_target, null.has_target) == (False, True)


def test_a_byte_order_mark_is_not_part_of_the_first_field(bench: Bench) -> None:
    (task,) = tasks(bench, "t.csv", "\ufeffid,input\na,x\n")
    assert task.id == "a"


def test_json_text_may_hold_other_line_separators(bench: Bench) -> None:
    (task,) = tasks(bench, "t.jsonl", '{"id": "a", "input": "x\u2028y\x85z"}\n')
    assert task.input == "x\u2028y\x85z"


def test_a_pipe_is_not_waited_for(bench: Bench) -> None:
    os.mkfifo(bench.root / "t.jsonl")
    assert bench.complaint(f"{HEAD}tasks: t.jsonl\n") == (
        "experiment.yaml:4: tasks: the task file 't.jsonl' can't be read: "
        "it is no plain file (a pipe or a device?)"
    )


def test_a_task_file_that_is_not_there_is_told_with_what_may_be_meant(bench: Bench) -> None:
    bench.write(tasks_jsonl='{"id": "a", "input": "x"}\n', task_csv="id,input\na,x\n", other_jsonl="")
    told = bench.complaint(f"{HEAD}tasks: task.jsonl\n")
    assert told.endswith("can't be read: No such file or directory; did you mean tasks.jsonl?")
    assert "did you mean" not in bench.complaint(f"{HEAD}tasks: elsewhere/questions.jsonl\n")
