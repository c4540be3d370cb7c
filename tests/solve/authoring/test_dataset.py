import json
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.solve.authoring.dataset import FieldSpec, MemoryDataset, csv_dataset, json_dataset
from labrunner.solve.values.messages import ChatMessageSystem, ChatMessageUser
from labrunner.solve.values.sample import Sample, Target
from labrunner.solve.values.task_folder import inside


def test_json_lines_become_samples_with_all_their_fields(tmp_path: Path) -> None:
    row = {
        "input": "q",
        "target": ["a", "b"],
        "choices": ["x", "y"],
        "id": "first",
        "metadata": {"level": 3},
        "files": {"f.txt": "content"},
        "setup": "true",
        "group": "g",
    }
    (tmp_path / "d.jsonl").write_text(json.dumps(row) + "\n\n" + '{"input": 7, "target": 8}\n')
    first, second = json_dataset(str(tmp_path / "d.jsonl"))
    assert first == Sample(
        input="q",
        target=["a", "b"],
        choices=["x", "y"],
        id="first",
        metadata={"level": 3},
        files={"f.txt": "content"},
        setup="true",
        group="g",
    )
    assert (second.input, second.target, second.id) == ("7", "8", None)


def test_a_json_list_and_conversations(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    (tmp_path / "d.json").write_text(json.dumps([{"input": messages}]))
    dataset = json_dataset(str(tmp_path / "d.json"))
    assert dataset.name == "d"
    assert dataset[0].input == [ChatMessageSystem("s"), ChatMessageUser("u")]


def test_csv_cells_are_text_and_may_hold_json(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(
        'question,answer,choices,metadata\n"two\nlines",4,"[""a"", ""b""]","{""k"": 1}"\nq,5,"c, d",\n'
    )
    spec = FieldSpec(input="question", target="answer")
    first, second = csv_dataset(str(tmp_path / "d.csv"), spec)
    assert (first.input, first.target, first.choices, first.metadata) == (
        "two\nlines",
        "4",
        ["a", "b"],
        {"k": 1},
    )
    assert (second.choices, second.metadata) == (["c", "d"], None)


def test_a_function_makes_samples_of_records(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"n": 1}\n{"n": 2}\n')

    def both(record: dict[str, int]) -> list[Sample]:
        return [Sample(input=str(record["n"])), Sample(input=f"-{record['n']}")]

    dataset = json_dataset(str(tmp_path / "d.jsonl"), both)
    assert [sample.input for sample in dataset] == ["1", "-1", "2", "-2"]


def test_fields_chosen_as_metadata(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"input": "q", "level": 1, "topic": "t"}\n')
    dataset = json_dataset(str(tmp_path / "d.jsonl"), FieldSpec(metadata=["level", "other"]))
    assert dataset[0].metadata == {"level": 1}


def test_shuffled_samples_keep_the_numbers_of_their_rows(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("".join(f'{{"input": "{n}"}}\n' for n in range(1, 30)))
    first = json_dataset(str(tmp_path / "d.jsonl"), shuffle=True, seed=1, limit=5)
    again = json_dataset(str(tmp_path / "d.jsonl"), shuffle=True, seed=1, limit=5)
    assert [sample.input for sample in first] == [sample.input for sample in again]
    assert all(sample.input == str(sample.id) for sample in first)
    assert [sample.id for sample in first] != [1, 2, 3, 4, 5]


def test_shuffled_choices_take_their_letters_with_them(tmp_path: Path) -> None:
    rows = [
        {"input": "q", "choices": ["w", "x", "y", "z"], "target": "B"},
        {"input": "q", "choices": ["w", "x", "y", "z"], "target": ["A", "D"]},
        {"input": "q", "choices": ["w", "x", "y", "z"], "target": "y"},
        {"input": "q", "target": "A"},
    ]
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    one, several, text, none = json_dataset(str(path), shuffle_choices=7)
    for sample, meant in ((one, ["x"]), (several, ["w", "z"])):
        assert sample.choices is not None
        assert sorted(sample.choices) == ["w", "x", "y", "z"]
        assert [sample.choices["ABCD".index(letter)] for letter in sample.target] == meant
    assert one.choices != ["w", "x", "y", "z"]
    assert (text.target, none.target, none.choices) == ("y", "A", None)
    assert list(json_dataset(str(path), shuffle_choices=7)) == [one, several, text, none]
    assert json_dataset(str(path), shuffle_choices=False)[0].choices == ["w", "x", "y", "z"]


def test_limits_slices_and_filters(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("".join(f'{{"input": "{n}"}}\n' for n in range(9)))
    dataset = json_dataset(str(tmp_path / "d.jsonl"), limit=4, auto_id=True)
    assert [sample.id for sample in dataset] == [1, 2, 3, 4]
    part = dataset[1:3]
    assert isinstance(part, MemoryDataset)
    assert [sample.input for sample in part.filter(lambda sample: sample.id == 3)] == ["2"]


def test_relative_paths_start_from_the_tasks_folder(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"input": "q"}\n')
    with inside(tmp_path):
        assert len(json_dataset("d.jsonl")) == 1


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("d.jsonl", '{"input": "q"}\n{oops}\n', r"d\.jsonl:2: is not valid JSON"),
        ("d.jsonl", '["q"]\n', r"d\.jsonl:1: a sample is a map of fields, found list"),
        ("d.jsonl", '{"question": "q"}\n', r"d\.jsonl:1: has no field 'input'"),
        ("d.jsonl", '{"input": [{"role": "nobody"}]}\n', r"a message's role must be .* found 'nobody'"),
        ("d.jsonl", '{"input": "q", "metadata": 3}\n', "metadata must be a dict, found int"),
        ("d.json", '{"input": "q"}', "must be a list of samples, found dict"),
        ("d.csv", "input,target\na\n", r"d\.csv:2: has another number of cells"),
        ("d.csv", 'input,metadata\na,"{"\n', r"d\.csv:2: metadata is not valid JSON"),
    ],
)
def test_what_is_wrong_with_a_dataset_is_told_with_its_line(
    tmp_path: Path, name: str, content: str, problem: str
) -> None:
    (tmp_path / name).write_text(content)
    read = csv_dataset if name.endswith("csv") else json_dataset
    with pytest.raises(InputError, match=problem):
        read(str(tmp_path / name))


def test_a_dataset_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.jsonl: the dataset can't be read"):
        json_dataset(str(tmp_path / "nowhere.jsonl"))


def test_targets_are_one_text_or_several() -> None:
    assert (Target("a").text, list(Target(["a", "b"])), Target(["a", "b"]).text) == ("a", ["a", "b"], "ab")


def test_cells_of_csv_may_be_long_and_hold_other_line_separators(tmp_path: Path) -> None:
    long = "x" * 300_000
    (tmp_path / "d.csv").write_text(f"input,target\none\u2028two\x0cthree,{long}\n", encoding="utf-8")
    (sample,) = csv_dataset(str(tmp_path / "d.csv"))
    assert (sample.input, sample.target) == ("one\u2028two\x0cthree", long)
