"""`lab run`: runs experiments and says how they ended.

What only some calls need (`--dry-run`, `--reuse`) is imported when asked for: a run should start at once.
"""

import sys
from dataclasses import replace
from functools import partial

from labrunner.analysis.judging.requirements import Requirements, refuse_impossible, refuse_unknown
from labrunner.analysis.sums.tally import declared_metric
from labrunner.cli.beside import with_pages
from labrunner.cli.carrying.target import Call, make_target_app
from labrunner.cli.carrying.turns import Turn, in_turn
from labrunner.cli.catalogue import COMMANDS
from labrunner.display.sitting import tell_checks, tell_end, watch
from labrunner.errors import ExitCode, InputError, LabError
from labrunner.experiment.options.table import find_option, flag
from labrunner.experiment.resolved import Experiment
from labrunner.runner.own_loop import run_alone
from labrunner.runner.sitting.sitting import RunEnd
from labrunner.runner.start import RunOptions, run_experiment

LONG_RUN = 20
"""From this many trials on, a run that its first error would end deserves a warning."""


def run(call: Call) -> int:
    """Run every target in turn; the first exit code that is not a success is the command's."""
    if call.reuse_edited and call.reuse is None:
        raise InputError(flag("reuse_edited"), f"needs {flag('reuse')} DIR: which runs to take results from")
    if call.overrides.replay_mode is not None and call.overrides.replay is None:
        raise InputError(flag("replay_mode"), f"needs {flag('replay')} RUN: whose calls answer")
    if call.dry_run:
        from labrunner.cli.carrying.plan import plan

        return plan(call)
    return in_turn([partial(_run_one, experiment, call) for experiment in call.experiments()])


def _run_one(experiment: Experiment, call: Call) -> Turn:
    _warn_of_first_error(experiment)
    requirements = call.requirements()
    refuse_unknown(requirements, [variant.id for variant in experiment.variants])
    planned = len(experiment.tasks) * experiment.replications
    refuse_impossible(requirements, declared_metric(experiment), planned=planned)
    options = call.options(experiment, on_checks=tell_checks)
    if call.reuse is not None:
        end = _run_reusing(experiment, options, call)
    else:
        end = run_alone(run_experiment(experiment, options, with_pages(watch, opens=call.view)))
    if requirements and end.exit_code is ExitCode.SUCCESS:
        return Turn(_tell_judged(end, requirements, as_json=call.as_json), end.is_interrupted)
    tell_end(end, as_json=call.as_json)
    return Turn(int(end.exit_code), end.is_interrupted)


def _tell_judged(end: RunEnd, requirements: Requirements, *, as_json: bool) -> int:
    """Say how a run ended, with every comparison that is required, and what of it is not met."""
    from labrunner.cli.requiring import tell_unmet
    from labrunner.runner.reports.results import judge_run

    try:
        judged = judge_run(end.paths, requirements, end.summary)
    except LabError:
        tell_end(end, as_json=as_json)
        raise
    found = {"unmet": judged.unmet, "notes": judged.notes}
    tell_end(replace(end, summary=judged.summary), as_json=as_json, judged=found)
    return tell_unmet(judged.unmet, judged.notes)


def _run_reusing(experiment: Experiment, options: RunOptions, call: Call) -> RunEnd:
    from labrunner.cli.carrying.retry import plan_reusing
    from labrunner.display.takeover import tell_plan
    from labrunner.runner.again.retrying import carry_out_retry

    watching = with_pages(watch, opens=call.view)
    return run_alone(carry_out_retry(plan_reusing(experiment, call), options, watching, on_plan=tell_plan))


def _warn_of_first_error(experiment: Experiment) -> None:
    planned = len(experiment.tasks) * len(experiment.variants) * experiment.replications
    policy = experiment.policy
    if planned >= LONG_RUN and policy.fail_on_error is True and not policy.retry_on_error:
        sys.stderr.write(
            f"note: the first error will end this run; {flag('retry_on_error')} or "
            f"{find_option('fail_on_error').spell('0.1')} tolerate some\n"
        )


app = make_target_app(
    run,
    "run",
    f"{COMMANDS['run'].does[0].upper()}{COMMANDS['run'].does[1:]}.",
)
