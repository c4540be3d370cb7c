"""Options that are for a command, or a function, alone: what else it looks at, and how it tells."""

from pathlib import Path
from typing import Final

from labrunner.experiment.options import kinds, spelling
from labrunner.experiment.options.option import CARRYING, OfCommand, RunOption

_EVERY: Final = (*CARRYING, "continue", "regrade")

CHOOSING_OPTIONS: Final = (
    RunOption(
        name="grader",
        goal=OfCommand("grader"),
        flags=("--grader",),
        help="another grader's folder (default: the run's own)",
        commands=("regrade",),
        word=Path,
        functions=(),
    ),
    RunOption(
        name="times",
        goal=OfCommand("times"),
        flags=("--times",),
        help="grade each that often, and say whose verdicts differ (1)",
        commands=("regrade",),
        word=int,
        least=1,
        functions=(),
    ),
    RunOption(
        name="trial",
        goal=OfCommand("trials"),
        flags=("--trial",),
        help="only this trial: its id, part of it, or a glob (repeatable)",
        commands=("regrade",),
        word=list[str],
        read=spelling.as_texts,
        functions=(),
    ),
    RunOption(
        name="all",
        goal=OfCommand("every"),
        flags=("--all",),
        help="every unfinished run here, the newest first",
        commands=("continue",),
        word=bool,
        functions=(),
    ),
)

RESULT_OPTIONS: Final = (
    RunOption(
        name="reuse",
        goal=OfCommand("reuse"),
        flags=("--reuse",),
        help="take over good results of the runs in this directory",
        commands=("run", "plan"),
        word=Path,
        functions=("eval",),
        annotation="str | Path",
        about="Take over good results of the runs in this directory.",
        take=spelling.as_path,
    ),
    RunOption(
        name="reuse_edited",
        goal=OfCommand("reuse_edited"),
        flags=("--reuse-edited",),
        help="also take over results of code that was edited since; kept in the run",
        commands=("run", "plan", "retry", "set"),
        word=bool,
        kind=kinds.TRUTH,
        about="Where results are taken over: also those of code that was edited since. Kept in the run.",
    ),
    RunOption(
        name="retry_attempts",
        goal=OfCommand("attempts"),
        flags=("--retry-attempts",),
        help="how often each experiment is tried (10); 0 is once",
        commands=("set",),
        word=int,
        least=0,
        functions=(),
        kind=kinds.COUNT_OR_NONE,
    ),
    RunOption(
        name="retry_wait",
        goal=OfCommand("wait_s"),
        flags=("--retry-wait",),
        help="seconds before it is tried again (30); doubles each time",
        commands=("set",),
        word=float,
        least=0,
        functions=(),
        kind=kinds.NOT_NEGATIVE,
    ),
    RunOption(
        name="power",
        goal=OfCommand("power"),
        flags=("--power",),
        help="a pilot run: also show which difference this plan would detect",
        commands=("plan",),
        functions=(),
    ),
    RunOption(
        name="detect",
        goal=OfCommand("detect"),
        flags=("--detect",),
        help="with --power: what it takes to detect this difference",
        commands=("plan",),
        word=float,
        functions=(),
    ),
    RunOption(
        name="require",
        goal=OfCommand("require"),
        flags=("--require",),
        help='"treatment > baseline" or "pass >= 0.9"; not met is exit code 4 (repeatable)',
        commands=("run",),
        word=list[str],
        metavar="CONDITION",
        read=spelling.as_texts,
        functions=(),
    ),
    RunOption(
        name="require_stable",
        goal=OfCommand("require_stable"),
        flags=("--require-stable",),
        help="exit code 4 when retries may have bent the result",
        commands=("run",),
        word=bool,
        functions=(),
    ),
    RunOption(
        name="require_coverage",
        goal=OfCommand("require_coverage"),
        flags=("--require-coverage",),
        help="exit code 4 when a smaller share of trials is graded",
        commands=("run",),
        word=float,
        metavar="SHARE",
        functions=(),
    ),
)

TELLING_OPTIONS: Final = (
    RunOption(
        name="display",
        goal=OfCommand("display"),
        annotation='bool | Literal["full", "conversation", "rich", "plain", "log", "none"]',
        about="Show progress and how it ended; by default where standard error is a terminal.",
    ),
    RunOption(
        name="dry_run",
        goal=OfCommand("dry_run"),
        flags=("--dry-run",),
        help="only show the plan (= `lab plan`)",
        word=bool,
        functions=(),
    ),
    RunOption(
        name="json",
        goal=OfCommand("as_json"),
        flags=("--json",),
        help="print JSON instead of text",
        commands=_EVERY,
        word=bool,
        functions=(),
    ),
)
