"""A cluster where what it takes is not installed; and what is loaded where none is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.executor.registry import RAY, make_named_executor
from labrunner.experiment.run_policy import ExecutorPlan
from labrunner.sandbox import registry
from labrunner.trial.assignment import TrialContext
from tests.kit.builders import make_experiment, make_policy

LOOKS = """
import sys
import labrunner.cli.main, labrunner.executor.local, labrunner.executor.registry, labrunner.runner.start
print(sorted({name.partition(".")[0] for name in sys.modules} & {"ray", "cryptography"}))
"""


@pytest.mark.parametrize("missing", ["ray", "cryptography"])
async def test_what_to_install_is_said(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever has not installed it finds nothing of that name.
    monkeypatch.setitem(sys.modules, missing, None)
    policy = make_policy(executor=ExecutorPlan(kind=RAY))
    context = TrialContext(
        experiment=make_experiment(policy=policy), run_id="r", trials_dir=tmp_path, host="here", secrets={}
    )
    executor = make_named_executor(RAY, context, registry.make)
    with pytest.raises(InputError, match=r"--executor: .* pip install 'labrunner\[ray\]'"):
        await executor.preflight()
    await executor.close()


def test_nothing_of_a_cluster_is_loaded_where_none_is_asked_for() -> None:
    told = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
