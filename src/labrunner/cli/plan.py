"""`lab plan`: shows exactly what would run."""

import sys

from labrunner.cli.target import Call, make_target_app
from labrunner.display.console import make_console
from labrunner.display.plan import show_plan
from labrunner.engine.run import concurrency_of
from labrunner.errors import ExitCode
from labrunner.experiment import codec
from labrunner.experiment.model import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.records import canonical


def plan(call: Call) -> int:
    """Show what each target would run."""
    for experiment in call.experiments():
        if call.as_json:
            _print_json(experiment)
        else:
            make_console().print(
                show_plan(experiment, concurrency=concurrency_of(experiment, len(Schedule.of(experiment))))
            )
    return int(ExitCode.SUCCESS)


def _print_json(experiment: Experiment) -> None:
    told = {
        "experiment": codec.to_record(experiment),
        "tasks": [canonical.decode_plain(line) for line in codec.task_lines(experiment)],
        "schedule": [canonical.decode_plain(line) for line in Schedule.of(experiment).lines(experiment)],
    }
    sys.stdout.write(canonical.encode_line(told).decode())


app = make_target_app(plan, "Show exactly what would run: the resolved experiment, its schedule and digest.")
