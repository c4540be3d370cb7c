from pathlib import Path
from typing import TypeGuard

import pytest

from labrunner.errors import InputError
from labrunner.registry import Registry
from tests.kit.extending.packages import write_package

GROUP = "labrunner.test_things"


def is_text(found: object) -> TypeGuard[str]:
    return isinstance(found, str)


THINGS = Registry(
    group=GROUP,
    noun="thing",
    built_in={"version": "labrunner.version:VERSION", "number": "labrunner.version:__name__"},
    accepts=is_text,
    wanted="a text",
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def bring(site: Path, package: str, module: str, text: str, **names: str) -> None:
    write_package(site, package, {f"{module}.py": text}, {GROUP: names})


def refusal(name: str) -> str:
    with pytest.raises(InputError) as caught:
        THINGS.find(name, "--thing")
    return str(caught.value)


def test_a_built_in_name_is_found_without_looking_at_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: str) -> None:
        raise AssertionError(f"{group} was read")

    # That something is not asked for can only be seen where it would be asked.
    monkeypatch.setattr("labrunner.registry._installed", refuse)
    assert THINGS.find("number", "") == "labrunner.version"
    assert THINGS.has("version")


def test_another_package_brings_a_name(site: Path) -> None:
    bring(site, "lab-things", "thing_a", "A = 'from a'", mine="thing_a:A")
    assert THINGS.find("mine", "") == "from a"
    known = THINGS.list_known()[-1]
    assert (known.name, known.origin, known.target) == ("mine", "lab-things 1.0", "thing_a:A")


def test_an_unknown_name_is_told_with_the_known_ones_and_where_they_come_from(site: Path) -> None:
    bring(site, "lab-things", "thing_b", "B = 'b'", mine="thing_b:B", yours="thing_b:B")
    told = (
        "--thing: there is no thing 'other'; known: version, number (built in); mine, yours (lab-things 1.0)"
    )
    assert refusal("other") == told
    assert not THINGS.has("other")


def test_a_door_that_nobody_has_opened_says_so() -> None:
    empty = Registry(group="labrunner.nothing", noun="thing", built_in={}, accepts=is_text, wanted="a text")
    assert empty.describe_unknown("x") == (
        "there is no thing 'x'; known: none: no installed package brings one"
    )


@pytest.mark.parametrize(
    ("text", "target", "found"),
    [
        ("import no_such_mod\nC = 1", "C", "ModuleNotFoundError: No module named 'no_such_mod'"),
        ("C = 1", "missing", "AttributeError: module 'thing_c' has no attribute 'missing'"),
        ("raise SystemExit(3)", "C", "SystemExit: 3"),
    ],
)  # fmt: skip
def test_one_that_fails_to_load_is_named_with_its_package(
    site: Path, text: str, target: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(__import__("sys").modules, "thing_c", raising=False)
    bring(site, "lab-broken", "thing_c", text, broken=f"thing_c:{target}")
    assert refusal("broken") == (
        "--thing: the thing 'broken' can't be loaded (lab-broken 1.0, entry point "
        f"broken = thing_c:{target}): {found}"
    )


def test_one_that_is_something_else_is_refused(site: Path) -> None:
    bring(site, "lab-things", "thing_d", "D = 7\nclass E: pass", a="thing_d:D", kind="thing_d:E")
    assert refusal("a") == (
        "--thing: the thing 'a' (lab-things 1.0, entry point a = thing_d:D) must be a text, found a int"
    )
    assert refusal("kind").endswith("must be a text, found E")


def test_a_name_that_two_packages_bring_is_refused_until_one_is_gone(site: Path) -> None:
    bring(site, "lab-one", "thing_f", "F = 'one'", same="thing_f:F")
    bring(site, "lab-two", "thing_g", "G = 'two'", same="thing_g:G")
    assert refusal("same") == (
        "--thing: the thing 'same' is brought by lab-one 1.0, entry point same = thing_f:F and "
        "lab-two 1.0, entry point same = thing_g:G; uninstall all but one"
    )
    assert all("uninstall all but one" in known.problem for known in THINGS.list_known()[2:])


def test_a_built_in_name_is_not_taken_over(site: Path) -> None:
    bring(site, "lab-things", "thing_h", "H = 'other'", number="thing_h:H")
    assert THINGS.find("number", "") == "labrunner.version"
    known = THINGS.list_known()[-1]
    assert known.origin == "lab-things 1.0"
    assert known.problem == "is not used: the thing 'number' is built in; give it another name"


def test_trying_all_tells_what_is_wrong_with_each(site: Path) -> None:
    bring(site, "lab-things", "thing_i", "I = 'good'\nJ = 7", good="thing_i:I", bad="thing_i:J")
    problems = {known.name: known.problem for known in THINGS.try_all()}
    assert problems["good"] == problems["version"] == ""
    assert "must be a text" in problems["bad"]
