"""An executor that another package brings."""

from pathlib import Path

import pytest

from tests.kit.cli.calling import lab, write_experiment
from tests.kit.extending.extras import write_extras
from tests.kit.extending.packages import write_package


@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_run_is_carried_out_by_a_foreign_executor(tmp_path: Path, by: str) -> None:
    folder, env = write_experiment(tmp_path / "e", tasks=2), write_extras(tmp_path / "site")
    words = ["--executor", "forwarding"] if by == "option" else []
    answer = lab("run", *words, cwd=folder, env=env | ({} if words else {"LAB_EXECUTOR": "forwarding"}))
    assert answer.code == 0, answer.err
    (forwarded,) = folder.glob(".lab/**/forwarded.txt")
    assert len(forwarded.read_text().splitlines()) == 2


def test_nobody_else_carries_out_what_names_no_executor(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    assert lab("run", cwd=folder, env=write_extras(tmp_path / "site")).code == 0
    assert lab("run", "--executor", "local", cwd=folder).code == 0
    assert list(folder.glob(".lab/**/forwarded.txt")) == []


def test_an_unknown_executor_is_told_with_the_known_ones(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    answer = lab("run", "--executor", "slurm", cwd=folder, env=write_extras(tmp_path / "site"))
    assert answer.code == 2
    known = "known: local, ray (built in); forwarding (lab-extras 2.1)"
    assert f"--executor: there is no executor 'slurm'; {known}" in answer.err
    assert not (folder / ".lab").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "E = 7",
            "must be what makes an Executor of a TrialContext and a way to make sandboxes",
        ),
        ("def E(context, make): return 7", "the executor 'bad' must be made an Executor, found a int"),
    ],
)
def test_an_executor_that_is_none_is_refused(tmp_path: Path, text: str, told: str) -> None:
    points = {"labrunner.executors": {"bad": "lab_bad:E"}}
    site = write_package(tmp_path / "site", "lab-bad", {"lab_bad.py": text}, points)
    folder = write_experiment(tmp_path / "e", tasks=1)
    answer = lab("run", "--executor", "bad", cwd=folder, env={"PYTHONPATH": str(site)})
    assert answer.code == 2
    assert told in answer.err


def test_python_in_this_process_is_carried_out_here_alone(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        "from labrunner import Task, task\nfrom labrunner.dataset import Sample\n"
        "@task\ndef t(): return Task([Sample(input='a', target='a')], scorer='match')\n"
    )
    env = write_extras(tmp_path / "site")
    answer = lab("run", "t.py", "--model", "mock/echo", "--executor", "forwarding", cwd=tmp_path, env=env)
    assert answer.code == 2
    assert "--executor: solvers and scorers in Python run in this process" in answer.err
