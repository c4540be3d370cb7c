"""Every agent of the catalogue has a sound file; one more takes one more file."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import labrunner
from labrunner.experiment.agents.catalogue import FILES
from labrunner.experiment.agents.known_agents import AGENTS, read_agent
from labrunner.experiment.authoring.problems import Problems

STAND_INS = {"noop", "oracle"}
"""What is no agent at all."""


@pytest.mark.parametrize("name", sorted(FILES.keys() - STAND_INS))
def test_a_catalogued_agent_is_sound(name: str) -> None:
    problems = Problems()
    found = read_agent(name, Path(), name, problems)
    problems.stop_if_any()
    assert found is not None
    file = found.part
    assert file.about
    assert file.version
    assert file.install
    assert file.dialects
    assert file.command[0] in file.install.programs
    assert file.error_exit_codes[69] == "setup"


@pytest.mark.parametrize("name", ["goose", "qwen-code"])
def test_a_system_prompt_that_begins_with_a_dash_is_no_option(name: str) -> None:
    found = read_agent(name, Path(), name, Problems())
    assert found is not None
    [word] = found.part.settings["system_prompt"].args
    assert word.endswith("=$value")  # their parsers take the next word for an option, or for none


def test_every_known_agent_is_a_file_of_the_catalogue() -> None:
    assert [known.name for known in AGENTS.list_known() if known.origin == "built in"] == sorted(FILES)


def test_one_more_agent_takes_one_more_file_and_no_code(tmp_path: Path) -> None:
    source = Path(labrunner.__file__).parent
    shutil.copytree(source, tmp_path / "labrunner", ignore=shutil.ignore_patterns("__pycache__", "pages"))
    catalogue = tmp_path / "labrunner" / "experiment" / "agents" / "catalogue"
    (catalogue / "tenth.yaml").write_text("about: the tenth\ncommand: [tenth]\n")
    code = "from labrunner.experiment.agents.known_agents import AGENTS; print(AGENTS.find('tenth', ''))"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.stdout.strip() == str(catalogue / "tenth.yaml"), ended.stderr
