"""`lab compare`: variants of a run, or runs, task by task."""

import sys
from contextlib import suppress
from enum import Enum
from typing import Annotated

import typer

from labrunner.cli.pieces import Json, LogDir, make_app
from labrunner.cli.requiring import Require, RequireCoverage, RequireStable, read_requirements, tell_unmet
from labrunner.display.named_agents import show_named
from labrunner.display.results.compare import show_comparisons
from labrunner.display.text.console import make_console, make_item
from labrunner.records.encoding import canonical
from labrunner.runner.reports.comparing import Contest, compare_runs
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run

app = make_app()

_Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUN", help="paths, ids, unique parts of ids, or `last`"),
]
_Baseline = Annotated[
    str | None,
    typer.Option(help="compare with this variant (of several runs: LABEL:VARIANT), not with the first"),
]


class PairBy(Enum):
    """What makes a task of two runs the same one."""

    CONTENT = "content"
    ID = "id"


_PairBy = Annotated[
    PairBy,
    typer.Option(
        help="pair tasks of several runs that ask the same (content), or whatever they ask (id); "
        "what differs is named"
    ),
]


@app.command(
    help="Compare the variants of a run, or several runs: paired by task, with everything to judge it by."
)
def compare(  # noqa: PLR0913 - the signature is the command line
    runs: _Runs,
    baseline: _Baseline = None,
    pair_by: _PairBy = PairBy.CONTENT,
    log_dir: LogDir = DEFAULT_RUNS,
    require: Require = None,
    require_stable: RequireStable = False,
    require_coverage: RequireCoverage = None,
    as_json: Json = False,
) -> None:
    """Compare."""
    requirements = read_requirements(require, is_stable=require_stable, coverage=require_coverage)
    found = [find_run(log_dir, run) for run in runs]
    contest = compare_runs(found, baseline=baseline, pair_by=pair_by.value, requirements=requirements)
    with suppress(BrokenPipeError):  # the exit code still counts
        if as_json:
            _print_json(contest)
        else:
            console = make_console()
            told = show_comparisons(
                contest.comparisons, contest.retry_shift, contest.cautions, contest.figures
            )
            console.print(told)
            if contest.agents:
                console.print(show_named(contest.agents))
            for sentence in contest.differences:
                console.print(make_item("not the same:", sentence, "yellow"))
    raise typer.Exit(tell_unmet(contest.unmet, contest.notes))


def _print_json(contest: Contest) -> None:
    told = {
        "comparisons": contest.comparisons,
        "figures": contest.figures,
        "retry_shift": contest.retry_shift,
        "warnings": [caution for _, caution in contest.cautions],
        "agents": {name: {"named": agent.named, "dir": agent.dir} for name, agent in contest.agents},
        "differences": contest.differences,
        "unmet": contest.unmet,
        "notes": contest.notes,
    }
    sys.stdout.write(canonical.encode_line(told).decode())
