"""`lab doctor`: checks what a run needs before anything is spent."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from labrunner.cli.carrying.doors import NOUNS, list_doors
from labrunner.cli.carrying.target import Call, find_scripts, make_target_app
from labrunner.display.checks import show_checks, show_machine
from labrunner.display.doors import show_doors
from labrunner.display.foreign import show_refusals
from labrunner.display.text.console import make_console
from labrunner.errors import ExitCode, InputError
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.sources.importers import read_import, split_import
from labrunner.interop.importers.reviewable import choose
from labrunner.records.encoding import canonical
from labrunner.registry import BUILT_IN
from labrunner.runner.smoke import smoke
from labrunner.runner.start import RunOptions, preflight
from labrunner.runner.upkeep.machine import examine_machine
from labrunner.runner.upkeep.model_checks import try_models
from labrunner.sandbox import registry
from labrunner.sandbox.door import Check


def doctor(call: Call) -> int:
    """Make every check for each target; bad input when one that matters did not pass."""
    if not call.targets:
        return _examine_machine(call)
    if refused := _find_refused(call):
        _print_refused(*refused, as_json=call.as_json)
        return int(ExitCode.BAD_INPUT)
    options = replace(call.options(), make=registry.remember(anew=True))
    checks = [
        check
        for experiment in call.experiments()
        for check in _examine(experiment, options, is_offline=call.offline)
    ]
    _print(checks, as_json=call.as_json)
    is_well = all(check.passed or check.severity == "warning" for check in checks)
    return int(ExitCode.SUCCESS if is_well else ExitCode.BAD_INPUT)


def _find_refused(call: Call) -> tuple[dict[str, Sequence[InputError]], int] | None:
    """Tasks of imports that can't be run here, of so many that are asked for; None when there are none."""
    refused: dict[str, Sequence[InputError]] = {}
    tasks = 0
    for target in call.targets:
        if (found := split_import(str(target))) is not None:
            document = choose(read_import(*found), call.overrides.task_ids)
            refused |= document.refused
            tasks += len(document.data["tasks"])
    return (refused, tasks) if refused else None


def _print_refused(refused: Mapping[str, Sequence[InputError]], tasks: int, *, as_json: bool) -> None:
    if as_json:
        reasons = {
            task: [{"where": each.where, "problem": each.problem} for each in why]
            for task, why in refused.items()
        }
        sys.stdout.write(canonical.encode_line({"refused": reasons, "tasks": tasks}).decode())
    else:
        make_console().print(show_refusals(refused, tasks))


def _examine_machine(call: Call) -> int:
    """Check what can be checked without an experiment."""
    checks, known = list(asyncio.run(examine_machine(call.log_dir))), list_doors()
    if call.as_json:
        sys.stdout.write(
            canonical.encode_line({"checks": checks, "experiment": None, "known": known}).decode()
        )
    else:
        make_console().print(show_machine(checks, show_doors(known, NOUNS), scripts=find_scripts()))
    return int(ExitCode.SUCCESS)


def _examine(experiment: Experiment, options: RunOptions, *, is_offline: bool) -> list[Check]:
    """Preflight, a request to each model, and if all is well a grader that gets nothing to grade."""
    checks = [*_check_agents(experiment), *asyncio.run(preflight(experiment, options))]
    if experiment.models and not is_offline:
        checks += asyncio.run(try_models(experiment, options.secrets))
    program = experiment.variants[0].program
    if program is not None and program.in_process:
        return checks  # solvers in Python can't be told to do nothing
    if all(check.passed or check.severity == "warning" for check in checks):
        checks += [each for each in asyncio.run(smoke(experiment, options)) if each not in checks]
    return checks


def _check_agents(experiment: Experiment) -> Iterator[Check]:
    """Say where no agent is named: a run would be refused."""
    agents = [variant.agent for variant in experiment.variants]
    if any(agent.runs == "nothing" and agent.named is None for agent in agents):
        told = f"none is named, so nothing was tried with one; a run takes {flag('agent')} NAME"
        yield Check(name="agent", passed=False, severity="warning", message=told)


def _print(checks: list[Check], *, as_json: bool) -> None:
    known = list_doors()
    if as_json:
        sys.stdout.write(canonical.encode_line({"checks": checks, "known": known}).decode())
    else:
        brought = [each for each in known if each["origin"] != BUILT_IN]  # what is built in is no news here
        nouns = list(dict.fromkeys(each["door"] for each in brought))
        make_console().print(show_checks(checks, *([show_doors(brought, nouns)] if brought else [])))


app = make_target_app(
    doctor,
    "doctor",
    "Check sandbox, disk, secrets and storage before anything is spent; without an experiment, this machine.",
    may_lack=True,
)
