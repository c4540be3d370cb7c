"""`--executor-address` where this machine carries trials out, over every command that takes it."""

from pathlib import Path

import pytest

from labrunner import eval
from labrunner.errors import InputError
from tests.kit.cli.calling import lab, write_experiment

ADDRESS = ("--executor-address", "10.0.0.1:6379")
REMEDY = "add --executor ray, or leave it out"


@pytest.mark.parametrize("command", ["run", "plan", "doctor", "set"])
def test_commands_that_take_experiments_refuse_it(command: str, tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=1)
    refused = lab(command, *ADDRESS, cwd=tmp_path)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"lab {command}: --executor-address: ")
    assert refused.err.endswith(f"{REMEDY}\n")
    assert not list((tmp_path / ".lab").glob("runs/*"))


def test_commands_that_take_runs_refuse_it_and_take_a_recorded_one(tmp_path: Path) -> None:
    extra = "executor: {kind: ray, address: '10.0.0.1:6379'}\nkeep: {workspace: always}\n"
    write_experiment(tmp_path, tasks=1, agent="raise SystemExit(75)", extra=extra)
    assert lab("run", "--run-id", "x", "--executor", "local", cwd=tmp_path).code == 1
    for command in ("continue", "retry", "regrade"):
        refused = lab(command, "x", "--executor", "local", *ADDRESS, cwd=tmp_path)
        assert refused.code == 2
        assert f"lab {command}: --executor-address: " in refused.err
        taken = lab(command, "x", "--executor", "local", cwd=tmp_path)
        assert "cluster's nodes" not in taken.err


def test_a_variable_that_is_set_for_all_keeps_no_run_here_from_beginning(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=1)
    env = {"LAB_EXECUTOR_ADDRESS": ADDRESS[1]}
    assert lab("run", "--run-id", "x", cwd=tmp_path, env=env).code == 0
    assert lab("retry", "x", cwd=tmp_path).code == 0


def test_python_refuses_it_too(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=1)
    with pytest.raises(InputError, match=f"executor-address: .*{REMEDY}"):
        eval(str(tmp_path / "experiment.yaml"), executor_address=ADDRESS[1], display="none")
