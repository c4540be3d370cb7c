"""`lab regrade`: grades kept workspaces again, into a new run."""

import sys
from collections.abc import Mapping
from typing import Any

from labrunner.cli.beside import with_pages
from labrunner.cli.carrying.signature import add_command
from labrunner.cli.pieces import RunName, make_app
from labrunner.display.sitting import tell_checks, tell_end, watch
from labrunner.display.text.quantities import format_count
from labrunner.display.text.saying import say_aside
from labrunner.evaluation.request import make_run_options
from labrunner.experiment.options.asked import Asked
from labrunner.experiment.options.table import find_option
from labrunner.runner.again.regradechoice import TrialChoice
from labrunner.runner.again.regrading import RegradeEnd, Regrading, regrade_run
from labrunner.runner.own_loop import run_alone
from labrunner.solve.origin import PythonTasks
from labrunner.store.reading.listing import find_run

app = make_app()


def regrade(run: str, asked: Asked, words: Mapping[str, Any]) -> int:
    """Grade again."""
    del words
    own, overrides = asked.of_command, asked.overrides
    options = make_run_options(asked, python=PythonTasks(), on_checks=tell_checks)
    regrading = Regrading(
        grader_dir=own.get("grader"),
        times=own.get("times", 1),
        choice=TrialChoice(
            task_ids=overrides.task_ids, variants=overrides.variants, trials=own.get("trials", ())
        ),
        asked=overrides,
    )
    watching = with_pages(watch, opens=bool(own.get("view")))
    done = run_alone(regrade_run(find_run(options.runs_dir, run), regrading, options, watching))
    tell_end(done.end, as_json=own.get("as_json", False))
    _tell_gaps(done)
    if regrading.times > 1:
        told = f"{format_count(len(done.unstable), 'trial')} judged differently in {regrading.times} gradings"
        sys.stderr.write(f"{told}\n")
        for name in done.unstable:
            say_aside(f"  {name}")
    return int(done.end.exit_code)


def _tell_gaps(done: RegradeEnd) -> None:
    if done.not_kept:
        sys.stderr.write(
            f"{format_count(done.not_kept, 'trial')} without a kept workspace: not graded; "
            f"a run with {find_option('keep_workspace').spell('always')} keeps all\n"
        )
    if done.masked:
        sys.stderr.write(
            f"{format_count(done.masked, 'workspace')} graded without the secrets that were masked there: "
            "verdicts that depend on them may differ\n"
        )


add_command(
    app,
    "regrade",
    regrade,
    argument=RunName,
    does="Grade a run's kept workspaces again, with a new or the same grader; no agent runs.",
)
