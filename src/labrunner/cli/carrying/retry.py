"""`lab retry`: a new run that takes over what was good and runs the rest."""

from functools import partial

from labrunner.cli.beside import with_pages
from labrunner.cli.carrying.target import Call, make_target_app
from labrunner.cli.carrying.turns import Turn, in_turn
from labrunner.display.sitting import tell_checks, tell_end, watch
from labrunner.display.takeover import tell_plan
from labrunner.errors import ExitCode, InputError
from labrunner.evaluation.request import refuse_one_id
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment
from labrunner.runner.again.retrying import (
    RetryPlan,
    carry_out_retry,
    find_readable,
    plan_retry,
    plan_reuse_of,
)
from labrunner.runner.own_loop import run_alone
from labrunner.runner.resume.draining import drain
from labrunner.store.reading.listing import find_run


def retry(call: Call) -> int:
    """Retry every run named; the first exit code that is not a success is the command's."""
    refuse_one_id(call.asked, flag("run_id"), runs=len(call.targets))
    runs = [find_run(call.log_dir, str(target)) for target in call.targets]
    for paths in runs:
        run_alone(drain(paths, call.options()))
    plans = [
        plan_retry(paths, call.overrides, call.python.reread, edited=call.reuse_edited) for paths in runs
    ]
    return in_turn([partial(_retry_one, planned, call) for planned in plans])


def _retry_one(planned: RetryPlan, call: Call) -> Turn:
    if call.dry_run:
        tell_plan(planned)
        return Turn(ExitCode.SUCCESS)
    options = call.options(on_checks=tell_checks)
    end = run_alone(carry_out_retry(planned, options, with_pages(watch, opens=call.view), on_plan=tell_plan))
    tell_end(end, as_json=call.as_json)
    return Turn(end.exit_code, end.is_interrupted)


def plan_reusing(experiment: Experiment, call: Call) -> RetryPlan:
    """Plan what a new run takes over from the runs of `--reuse`."""
    if call.reuse is None:
        raise InputError(flag("reuse"), "expected the directory of runs to take results from")
    return plan_reuse_of(experiment, find_readable(call.reuse), edited=call.reuse_edited)


app = make_target_app(
    retry,
    "retry",
    "Start a new run that takes over what was good and runs again what failed, changed or is missing.",
    takes_runs=True,
)
