"""`lab retry`: a new run that takes over what was good and runs the rest."""

import asyncio
from dataclasses import replace
from functools import partial

import msgspec

from labrunner.cli.saying import say_aside
from labrunner.cli.sitting import Turn, in_turn, tell_checks, tell_end, watch
from labrunner.cli.target import Call, make_target_app
from labrunner.display.quantities import format_count
from labrunner.engine.draining import drain
from labrunner.engine.retrying import (
    Retry,
    carry_out_retry,
    find_readable,
    merge_overrides,
    plan_retry,
    plan_reuse_of,
)
from labrunner.errors import ExitCode, InputError
from labrunner.experiment.model import Experiment
from labrunner.experiment.overrides import Overrides
from labrunner.store.layout import RunPaths
from labrunner.store.listing import find_run
from labrunner.store.record import read_run


def retry(call: Call) -> int:
    """Retry every run named; the first exit code that is not a success is the command's."""
    if call.run_id is not None and len(call.targets) > 1:
        raise InputError("--run-id", "names one run, but there are several to retry")
    runs = [find_run(call.log_dir, str(target)) for target in call.targets]
    for paths in runs:
        asyncio.run(drain(paths, call.options()))
    plans = [
        (paths, plan_retry(paths, call.overrides, call.python.reread, edited=call.reuse_edited))
        for paths in runs
    ]
    return in_turn([partial(_retry_one, paths, planned, call) for paths, planned in plans])


def _retry_one(paths: RunPaths, planned: Retry, call: Call) -> Turn:
    if call.dry_run:
        tell_plan(planned)
        return Turn(ExitCode.SUCCESS)
    kept = msgspec.convert(read_run(paths).overrides, Overrides)
    options = replace(
        call.options(on_checks=tell_checks),
        overrides=msgspec.to_builtins(merge_overrides(kept, call.overrides)),
    )
    end = asyncio.run(carry_out_retry(planned, options, watch, on_plan=tell_plan))
    tell_end(end, as_json=call.as_json)
    return Turn(end.exit_code, end.is_interrupted)


def plan_reusing(experiment: Experiment, call: Call) -> Retry:
    """Plan what a new run takes over from the runs of `--reuse`."""
    if call.reuse is None:
        raise InputError("--reuse", "expected the directory of runs to take results from")
    return plan_reuse_of(experiment, find_readable(call.reuse), edited=call.reuse_edited)


def tell_plan(planned: Retry) -> None:
    """Say what is taken over and what is run again, and why, before anything is spent."""
    for line in describe_plan(planned):
        say_aside(line)


def describe_plan(planned: Retry) -> list[str]:
    """What is taken over and what is run again, and why, in lines."""
    reuse = planned.reuse
    lines = [f"{source.paths.root.name}: {source.loss}" for source in reuse.sources if source.loss]
    lines += [
        f"nothing is taken from {reuse.sources[number].paths.root.name}: {problem}"
        for number, problem in reuse.unusable.items()
    ]
    again = f", {len(reuse.again):,} to grade again" if reuse.again else ""
    lines += [f"{format_count(reuse.reused, 'trial')} taken over{again}, {reuse.owed:,} to run"]
    if reuse.vouched is not None:
        lines.append(
            f"  {reuse.vouched.trials:,} taken over from earlier code, as --reuse-edited vouches for it"
        )
    for reason, count in reuse.reasons.most_common():
        named = ", ".join(reuse.examples[reason])
        lines.append(f"  {count:,} {reason}: {named}{', ...' if count > len(reuse.examples[reason]) else ''}")
    lines += [f"  since then: {sentence}" for sentence in planned.changed]
    if planned.changed and reuse.vouched is None and any("changed" in reason for reason in reuse.reasons):
        lines.append("  where only code was edited and you vouch for it: --reuse-edited")
    return lines


def plain_plan(planned: Retry) -> dict[str, object]:
    """The same for programs."""
    reuse = planned.reuse
    return {
        "taken_over": reuse.reused,
        "to_run": reuse.owed,
        "reasons": dict(reuse.reasons),
        "changed": planned.changed,
        "vouched": reuse.vouched,
    }


app = make_target_app(
    retry,
    "Start a new run that takes over what was good and runs again what failed, changed or is missing.",
    takes_runs=True,
    own=("--reuse-edited",),
)
