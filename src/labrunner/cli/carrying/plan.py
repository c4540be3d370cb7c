"""`lab plan`: shows exactly what would run."""

import sys
from collections.abc import Sequence
from dataclasses import replace

from labrunner.analysis.comparing.power import Pilot, PowerGrid, layout_of, make_grid
from labrunner.cli.carrying.retry import plan_reusing
from labrunner.cli.carrying.target import Call, make_target_app
from labrunner.cli.pieces import find_runs
from labrunner.display.plan import show_plan, show_reuse
from labrunner.display.results.power import show_power
from labrunner.display.takeover import describe_plan, plain_plan
from labrunner.display.text.console import make_console
from labrunner.errors import ExitCode, InputError
from labrunner.experiment import codec
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.records.encoding import canonical
from labrunner.runner.again.retrying import RetryPlan
from labrunner.runner.concurrency import concurrency_of
from labrunner.runner.reports.piloting import read_pilots
from labrunner.runner.upkeep.footprint import Footprint, estimate_footprint
from labrunner.store.reading.listing import find_run


def plan(call: Call) -> int:
    """Show what each target would run."""
    for experiment in call.experiments():
        grids = _estimate_power(experiment, call)
        concurrency = concurrency_of(experiment, len(Schedule.of(experiment)))
        footprint = estimate_footprint(experiment, concurrency)
        reuse = plan_reusing(experiment, call) if call.reuse is not None else None
        if call.as_json:
            _print_json(experiment, footprint, grids, reuse)
            continue
        console = make_console()
        console.print(show_plan(experiment, concurrency=concurrency, footprint=footprint))
        if reuse is not None:
            console.print(show_reuse(describe_plan(reuse)))
        if grids is not None:
            console.print(show_power(grids))
    return int(ExitCode.SUCCESS)


def _estimate_power(experiment: Experiment, call: Call) -> tuple[PowerGrid, ...] | None:
    """What this plan would show, going by a pilot run; None when nobody named one."""
    if call.detect is not None and call.detect <= 0:
        raise InputError(flag("detect"), f"expected a difference above 0, found {call.detect:g}")
    if call.power is None:
        if call.detect is not None:
            raise InputError(flag("detect"), f"needs a pilot to go by: {flag('power')} RUN")
        return None
    layout = layout_of([task.group for task in experiment.tasks])
    family = max(1, len(experiment.variants) - 1)
    found = read_pilots(find_run(find_runs(call.log_dir), call.power))
    pilots = tuple(replace(pilot, family=family) for pilot in found)
    if call.detect is not None:
        _refuse_beyond_scale(call.detect, pilots)
    return tuple(
        make_grid(pilot, layout, replications=experiment.replications, detect=call.detect) for pilot in pilots
    )


def _refuse_beyond_scale(detect: float, pilots: Sequence[Pilot]) -> None:
    room = [pilot.reach for pilot in pilots if pilot.reach is not None]
    if room and detect > max(room):
        points = "; five points of a rate are 0.05" if any(pilot.is_rate for pilot in pilots) else ""
        told = f"expected a difference that the scale has room for, at most {max(room):.3g}, found {detect:g}"
        raise InputError(flag("detect"), f"{told}{points}")


def _print_json(
    experiment: Experiment, footprint: Footprint, grids: tuple[PowerGrid, ...] | None, reuse: RetryPlan | None
) -> None:
    told = {
        "disk_bytes": footprint,
        **({} if reuse is None else {"reuse": plain_plan(reuse)}),
        **({} if grids is None else {"power": grids}),
        "experiment": codec.to_record(experiment),
        "tasks": [canonical.decode_plain(line) for line in codec.task_lines(experiment)],
        "schedule": [canonical.decode_plain(line) for line in Schedule.of(experiment).lines(experiment)],
    }
    sys.stdout.write(canonical.encode_line(told).decode())


app = make_target_app(
    plan,
    "plan",
    "Show exactly what would run: the resolved experiment, its schedule, digest and expected disk.",
)
