"""A sandbox kind that another package brings."""

import json
from pathlib import Path

import pytest

from tests.kit.cli.calling import lab, write_experiment
from tests.kit.extending.extras import write_extras
from tests.kit.extending.packages import write_package

GROUP = "labrunner.sandboxes"


def test_a_run_in_a_foreign_kind_of_sandbox(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1, sandbox="loud")
    answer = lab("run", "--set", "keep.workspace=always", cwd=folder, env=write_extras(tmp_path / "site"))
    assert answer.code == 0, answer.err
    (run,) = folder.glob("**/run.json")
    (variant,) = json.loads(run.read_text())["experiment"]["variants"]
    assert variant["sandbox"]["kind"] == "loud"
    assert variant["agent"]["network"]["mode"] == "full"  # the kind says that it isolates none
    (said,) = run.parent.glob("trials/*/*/workspace/loud.txt")
    assert said.read_text() == "a loud sandbox was opened"


def test_an_unknown_kind_is_told_with_the_known_ones(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    answer = lab("run", "--sandbox", "podman", cwd=folder, env=write_extras(tmp_path / "site"))
    assert answer.code == 2
    told = "--sandbox: there is no sandbox kind 'podman'; known: bubblewrap, docker, process (built in); "
    assert told + "loud (lab-extras 2.1)" in answer.err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("KIND = 7", "must be a SandboxKind, found a int"),
        (
            "import no_such_mod",
            "can't be loaded (lab-bad 1.0, entry point bad = lab_bad:KIND): ModuleNotFound",
        ),
        (
            "from labrunner.experiment.sandbox_kinds import SandboxFacts\nKIND = SandboxFacts()",
            "must be a SandboxKind, found its facts only",
        ),
    ],
)
def test_a_kind_that_can_not_be_used_names_its_package(tmp_path: Path, text: str, found: str) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1, sandbox="bad")
    site = write_package(tmp_path / "site", "lab-bad", {"lab_bad.py": text}, {GROUP: {"bad": "lab_bad:KIND"}})
    answer = lab("run", cwd=folder, env={"PYTHONPATH": str(site)})
    assert answer.code == 2
    assert found in answer.err
    assert "Traceback" not in answer.err


def test_doctor_lists_what_is_known_and_from_where(tmp_path: Path) -> None:
    env = write_extras(tmp_path / "site") | {"DOCKER_HOST": f"unix://{tmp_path}/no-engine"}
    write_package(
        tmp_path / "site",
        "lab-thief",
        {"thief.py": "K = 1"},
        {GROUP: {"docker": "thief:K", "seven": "thief:K"}},
    )
    (tmp_path / "here").mkdir()
    lines = lab("doctor", cwd=tmp_path / "here", env=env).out.splitlines()
    (own,) = [line for line in lines if line.startswith("sandbox kind  built in")]
    assert own.split()[-3:] == ["bubblewrap,", "docker,", "process"]
    (theirs,) = [line for line in lines if "lab-extras 2.1" in line and line.startswith("sandbox kind")]
    assert theirs.split()[-1] == "loud"
    (taken,) = [line for line in lines if line.startswith("sandbox kind docker of lab-thief")]
    assert "is built in; give it another name" in taken
    known = lab("doctor", "--json", cwd=tmp_path / "here", env=env).json()["known"]
    by_name = {
        each["name"]: each for each in known if each["group"] == GROUP and each["origin"] != "built in"
    }
    assert by_name["loud"]["problem"] == ""
    assert "must be a SandboxKind" in by_name["seven"]["problem"]


def test_doctor_lists_it_with_an_experiment_too(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    env = write_extras(tmp_path / "site")
    known = lab("doctor", "--json", cwd=folder, env=env).json()["known"]
    assert {"loud", "process"} <= {each["name"] for each in known}


def test_what_a_foreign_kind_left_is_cleaned_away(tmp_path: Path) -> None:
    (left := tmp_path / "left").mkdir()
    (left / "box").write_text("")
    env = write_extras(tmp_path / "site") | {
        "LOUD_LEFT": str(left),
        "DOCKER_HOST": f"unix://{tmp_path}/no-engine",
    }
    # Who was killed elsewhere on this machine may have left something, too.
    found = lab("clean", "--list", "--json", cwd=tmp_path, env=env).json()
    assert [each["containers"] for each in found if each["whose"] == "nobody"] == [[str(left / "box")]]
    assert lab("clean", "--yes", cwd=tmp_path, env=env).code == 0
    assert list(left.iterdir()) == []
