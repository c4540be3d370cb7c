from dataclasses import dataclass
from pathlib import Path

import pytest

from labrunner.errors import InputError, InputErrors
from labrunner.executor.local import LocalExecutor
from labrunner.experiment.resolved import Resources, SandboxPlan
from labrunner.runner.start import refuse_failed
from labrunner.runner.upkeep.preflight import check_secrets
from labrunner.sandbox.door import NO_DEMANDS, Check, Demands
from labrunner.sandbox.fake import FakeMaker
from labrunner.trial.assignment import TrialContext
from tests.kit.builders import make_agent, make_experiment, make_task, make_variant

ASKING = make_experiment(variants=(make_variant(agent=make_agent(secrets=("KEY", "TOKEN"))),))


def test_a_secret_too_short_to_be_masked_is_warned_of() -> None:
    (check,) = check_secrets(ASKING, {"KEY": "sesame", "TOKEN": "long enough"})
    assert (check.passed, check.severity) == (False, "warning")
    assert check.message == "KEY: shorter than 8 characters, so not masked where it is printed"


def test_a_missing_secret_is_an_error_and_given_ones_are_named_without_values() -> None:
    (missing,) = check_secrets(ASKING, {"KEY": "long enough"})
    assert (missing.passed, missing.severity) == (False, "error")
    assert "no value for TOKEN" in missing.message
    (given,) = check_secrets(ASKING, {"KEY": "long enough", "TOKEN": "so is this"})
    assert given == Check(name="secrets", passed=True, message="KEY, TOKEN: given")


def test_every_failed_check_has_a_line_of_its_own_and_warnings_refuse_nothing() -> None:
    disk, engine = (Check(name=name, passed=False, message="no") for name in ("disk", "docker"))
    refuse_failed((Check(name="grader", passed=False, severity="warning", message="no"),))
    with pytest.raises(InputError, match=r"^preflight: disk: no$"):
        refuse_failed((disk,))
    with pytest.raises(InputErrors, match=r"^preflight: disk: no\npreflight: docker: no$"):
        refuse_failed((disk, engine))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoorMaker(FakeMaker):
    """A machine with little memory, and no engine."""

    async def preflight(self, plan: SandboxPlan, demands: Demands = NO_DEMANDS) -> tuple[Check, ...]:
        del demands
        has_room = plan.memory_mb <= 4096
        return (
            Check(name="engine", passed=False, message="does not answer"),
            Check(name="limits", passed=has_room, message=f"memory_mb: {plan.memory_mb}"),
        )


async def test_a_limit_that_can_not_be_held_names_the_tasks_that_ask_for_it(tmp_path: Path) -> None:
    large = Resources(memory_mb=8192)
    tasks = tuple(
        make_task(f"t{number}", resources=large if number in {1, 3} else Resources()) for number in range(4)
    )
    context = TrialContext(
        experiment=make_experiment(tasks=tasks), run_id="r", trials_dir=tmp_path, host="h", secrets={}
    )

    checks = await LocalExecutor(context, lambda kind: PoorMaker()).preflight()

    failed = [check.message for check in checks if not check.passed]
    assert failed == ["does not answer", "tasks t1, t3: memory_mb: 8192"]
