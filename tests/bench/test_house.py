"""Small houses, each with one thing wrong with it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.house import rules
from bench.house.__main__ import main
from bench.house.account import tell
from bench.house.graph import find_cycles, importers, room_graph, top_graph
from bench.house.reading import House, read_house
from bench.house.summary import summarize


def build(place: Path, files: Mapping[str, str]) -> House:
    source = place / "labrunner"
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in path.parents:
            if folder.is_relative_to(source):
                (folder / "__init__.py").touch()
    return read_house(source)


def broken(house: House) -> list[str]:
    """What is wrong, but for names that are allowed to stand twice and here do not."""
    return [line for line in rules.find_broken(house) if not line.startswith("allowed for nothing")]


@pytest.mark.parametrize(
    "back",
    [
        pytest.param("from labrunner.upper.a import A\n", id="plain"),
        pytest.param("def f():\n    from labrunner.upper import a\n", id="inside a function"),
        pytest.param("if TYPE_CHECKING:\n    import labrunner.upper.a\n", id="for types only"),
    ],
)
def test_rooms_that_import_each_other_are_found_however_they_do(tmp_path: Path, back: str) -> None:
    house = build(tmp_path, {"upper/a.py": "from labrunner.lower import b\n", "lower/b.py": back})
    assert broken(house) == ["rooms import each other in a circle: lower, upper"]
    assert rules.module_cycles(house) == [("lower.b", "upper.a")]


def test_a_circle_of_sub_rooms_by_way_of_a_third_is_found(tmp_path: Path) -> None:
    files = {
        "room/one/a.py": "from labrunner.room.two import b\n",
        "room/two/b.py": "from labrunner.room import c\n",
        "room/c.py": "from labrunner.room.one.x import X\n",
        "room/one/x.py": "class X: ...\n",
    }
    house = build(tmp_path, files)
    assert broken(house) == ["rooms import each other in a circle: room.c, room.one, room.two"]
    assert rules.module_cycles(house) == []


def test_a_door_below_and_a_registry_above_a_sub_room_are_no_circle(tmp_path: Path) -> None:
    files = {
        "room/registry.py": "from labrunner.room.sub import a\n",
        "room/sub/a.py": "from labrunner.room import door\n",
        "room/door.py": "",
    }
    assert broken(build(tmp_path, files)) == []


def test_modules_of_one_name_need_a_reason(tmp_path: Path) -> None:
    house = build(tmp_path, {"one/thing.py": "", "two/thing.py": "", "one/door.py": "", "two/door.py": ""})
    (line,) = broken(house)
    assert line.startswith("modules of one name: thing, in one, two; rename one")


def test_an_allowed_name_in_a_third_room_is_not_allowed(tmp_path: Path) -> None:
    house = build(tmp_path, {f"{room}/show.py": "" for room in ("cli/looking", "display/results", "three")})
    (line,) = broken(house)
    assert line.startswith("modules of one name: show, in cli.looking, display.results, three")


def test_a_reason_for_names_that_no_longer_stand_twice_is_told(tmp_path: Path) -> None:
    house = build(tmp_path, {"cli/looking/show.py": ""})
    told = [line for line in rules.find_broken(house) if line.startswith("allowed for nothing: show ")]
    assert len(told) == 1


def test_classes_of_one_name_are_found(tmp_path: Path) -> None:
    house = build(
        tmp_path, {"one/a.py": "class Thing: ...\n", "two/b.py": "def f():\n    class Thing: ...\n"}
    )
    assert broken(house) == ["classes of one name: Thing, in one.a, two.b"]


def test_a_dozen_modules_are_a_room_and_thirteen_a_crowd(tmp_path: Path) -> None:
    files = {f"room/m{number}.py": "" for number in range(12)}
    assert broken(build(tmp_path, files)) == []
    assert broken(build(tmp_path, {"room/more.py": ""})) == [
        "a crowded room: room has 13 modules, at most 12"
    ]


def test_a_module_has_at_most_400_lines(tmp_path: Path) -> None:
    assert broken(build(tmp_path, {"room/a.py": "x = 1\n" * 400})) == []
    assert broken(build(tmp_path, {"room/a.py": "x = 1\n" * 401})) == [
        "a module too long: room.a has 401 lines, at most 400"
    ]


def test_fan_in_and_fan_out_are_told_by_name(tmp_path: Path) -> None:
    files = {"a/x.py": "from labrunner.b.sub import y\nfrom labrunner.errors import Oops\n", "b/sub/y.py": ""}
    house = build(
        tmp_path, {**files, "errors.py": "class Oops: ...\n", "face.py": "from labrunner.a import x\n"}
    )
    assert room_graph(house)["a"] == {"b.sub", "errors"}
    assert top_graph(house)["a"] == {"b", "errors"}
    assert importers(room_graph(house))["a"] == {""}
    lines = list(tell(house))
    assert lines[lines.index("  a") + 1 :][:2] == [
        "    imports      b.sub, errors",
        "    imported by  labrunner",
    ]


def test_long_modules_and_functions_are_told_longest_first(tmp_path: Path) -> None:
    text = "def short():\n" + "    x = 1\n" * 39 + "\n\ndef long():\n" + "    x = 1\n" * 40
    house = build(tmp_path, {"room/a.py": text, "room/b.py": "x = 1\n" * 251, "room/c.py": "x = 1\n" * 300})
    assert rules.long_functions(house) == [("room.a.long", 41)]
    assert rules.long_modules(house) == [("room.c", 300), ("room.b", 251)]


def test_the_summary_does_not_change_with_every_line(tmp_path: Path) -> None:
    before = summarize(build(tmp_path, {"room/a.py": "x = 1\n" * 100}))
    assert summarize(build(tmp_path, {"room/a.py": "x = 1\n" * 120})) == before
    assert summarize(build(tmp_path, {"room/b.py": ""})) != before


def test_two_circles_that_do_not_meet_are_two() -> None:
    edges = {"a": "b", "b": "a", "c": "d", "d": "c", "e": "a"}
    graph = {name: frozenset(targets) for name, targets in edges.items()}
    assert find_cycles(graph) == [("a", "b"), ("c", "d")]


def test_the_script_checks_this_house(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--check"])
    assert (code, capsys.readouterr().out) == (0, "no rule is broken\n")
