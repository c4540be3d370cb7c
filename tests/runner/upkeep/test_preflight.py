from dataclasses import dataclass
from pathlib import Path

import pytest

from labrunner.errors import InputError, InputErrors
from labrunner.executor.local import LocalExecutor
from labrunner.experiment.resolved import Resources, SandboxPlan
from labrunner.runner.start import refuse_failed
from labrunner.runner.upkeep.preflight import check_secrets, leave_out
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


def on(node: str, *failed: str) -> tuple[Check, ...]:
    return tuple(
        Check(name=name, passed=name not in failed, message="found", node=node) for name in ("disk", "image")
    )


def test_what_fails_on_a_node_is_a_warning_where_another_one_passes_everything() -> None:
    found = leave_out((*on("n1"), *on("n2", "image"), *on("n3", "disk", "image")))
    refuse_failed(found)
    assert (found[0].name, found[0].severity) == ("nodes", "warning")
    assert found[0].message.startswith("2 of 3 not used, for what fails there: n2, n3;")
    assert [(check.name, check.node) for check in found[1:] if not check.passed] == [
        ("image", "n2"),
        ("disk", "n3"),
        ("image", "n3"),
    ]


@pytest.mark.parametrize("second", [on("n2", "image"), on("n2", "disk"), ()])
def test_what_fails_on_every_node_refuses_a_run(second: tuple[Check, ...]) -> None:
    checks = (*on("n1", "image"), *second)
    assert leave_out(checks) == checks
    with pytest.raises((InputError, InputErrors), match="image on n1"):
        refuse_failed(checks)


def test_what_fails_here_refuses_a_run_whatever_nodes_say() -> None:
    secrets = Check(name="secrets", passed=False, message="no value for KEY")
    with pytest.raises(InputError, match=r"^preflight: secrets: no value for KEY$"):
        refuse_failed(leave_out((secrets, *on("n1"), *on("n2", "image"))))


def test_a_node_of_which_only_a_warning_is_known_is_none_that_passes() -> None:
    warned = Check(name="node name", passed=False, severity="warning", message="two", node="n1")
    checks = (warned, *on("n2", "image"))
    assert leave_out(checks) == checks


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
