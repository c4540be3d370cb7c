"""`lab set`: several experiments into one directory, until all have succeeded."""

import sys
from functools import partial

from labrunner.cli.carrying.target import Call, make_target_app
from labrunner.display.sitting import screen_may_go, tell_checks, tell_done_before, tell_end, watch
from labrunner.display.takeover import tell_plan
from labrunner.display.text.saying import say_aside
from labrunner.runner.again.sets import SetOptions, run_set
from labrunner.runner.own_loop import run_alone


def run_all(call: Call) -> int:
    """Run every target until all have succeeded."""
    defaults = SetOptions()
    options = SetOptions(
        attempts=call.attempts if call.attempts is not None else defaults.attempts,
        wait_s=call.wait_s if call.wait_s is not None else defaults.wait_s,
        on_wait=_tell_wait,
        reuse_edited=call.reuse_edited,
    )
    how = partial(call.options, on_checks=tell_checks)
    end = run_alone(run_set(call.experiments(), how, options, watch, on_plan=tell_plan))
    for paths in end.done_before:
        say_aside(f"{paths.root.name}: succeeded before, nothing to do")
        tell_done_before(paths, as_json=call.as_json)
    for each in end.ends:
        tell_end(each, as_json=call.as_json)
    return int(end.exit_code)


def _tell_wait(wait_s: float) -> None:
    with screen_may_go():
        sys.stderr.write(f"not all have succeeded; trying again in {wait_s:.0f} s\n")


app = make_target_app(
    run_all,
    "set",
    "Run experiments into one directory, retry those that fail, until all have succeeded.",
)
