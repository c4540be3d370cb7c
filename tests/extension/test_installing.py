"""The package of these tests, installed for real; what the page about it says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labrunner.cli.carrying.doors import DOORS
from tests.kit.cli.calling import lab
from tests.kit.docs.pages import ROOT
from tests.kit.extending.extras import POINTS, wheel_of_extras, write_extras

PAGE = ROOT / "docs" / "extending.md"


def installer() -> list[str]:
    """Whatever installs packages here."""
    if shutil.which("uv"):
        return ["uv", "pip", "install", "--quiet", "--offline", "--python", sys.executable]
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--no-index"]
    pytest.skip("neither uv nor pip is here")


def test_an_installed_wheel_opens_every_door(tmp_path: Path) -> None:
    site = tmp_path / "site"
    wheel = wheel_of_extras(tmp_path)
    subprocess.run([*installer(), "--no-deps", "--target", str(site), str(wheel)], check=True)
    known = lab("doctor", "--json", cwd=tmp_path, env={"PYTHONPATH": str(site)}).json()["known"]
    brought = [each for each in known if each["origin"] == "lab-extras 2.1"]
    assert {(each["group"], each["name"]) for each in brought} == {
        (group, name) for group, names in POINTS.items() for name in names
    }
    assert [each["problem"] for each in brought] == [""] * len(brought)


def test_the_package_of_these_tests_brings_one_of_everything() -> None:
    assert {door.group for door in DOORS} == set(POINTS)


def test_the_page_names_every_door_and_nothing_else() -> None:
    table = re.findall(r"^\| [\w ]+ \| `(labrunner\.\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(table) == sorted(door.group for door in DOORS)


def test_doctor_shows_a_line_for_each_door(tmp_path: Path) -> None:
    env = write_extras(tmp_path / "site") | {"DOCKER_HOST": f"unix://{tmp_path}/no-engine"}
    (tmp_path / "here").mkdir()
    lines = lab("doctor", cwd=tmp_path / "here", env=env).out.splitlines()
    for door in DOORS:
        found = [line for line in lines if re.match(rf"{door.noun}  +lab-extras 2\.1", line)]
        assert len(found) == 1, door.noun
        assert next(iter(POINTS[door.group])) in found[0]
