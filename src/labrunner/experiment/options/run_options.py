"""Options of how a run is carried out here; a new run does not inherit them."""

from pathlib import Path
from typing import Final

from labrunner.experiment.options import kinds, spelling
from labrunner.experiment.options.option import CONTINUED, EVERY, OfRun, RunOption

RUN_OPTIONS: Final = (
    RunOption(
        name="env_file",
        goal=OfRun("env_file"),
        flags=("--env-file",),
        help="a file of K=V lines with values of secrets",
        commands=EVERY,
        going_on="a file of K=V lines (default: the one that the run began with)",
        word=Path,
        annotation="str | Path",
        take=spelling.as_path,
    ),
    RunOption(
        name="run_id",
        goal=OfRun("run_id"),
        flags=("--run-id",),
        help="the new run's id, instead of a made one",
        commands=("run", "plan", "doctor", "retry", "regrade"),  # a set makes a new run at each retry
        functions=("eval", "eval_retry"),
        kind=kinds.TEXT,
    ),
    RunOption(
        name="log_dir",
        goal=OfRun("runs_dir"),
        flags=("--log-dir",),
        help="where runs are kept",
        commands=EVERY,
        word=Path,
        functions=("eval", "eval_retry"),
        annotation="str | Path",
        take=spelling.as_path,
    ),
    RunOption(
        name="grace",
        goal=OfRun("grace_s"),
        flags=("--grace",),
        help="seconds for trials in flight when stopped (30; 5 under CI)",
        commands=CONTINUED,
        word=float,
        least=0,
        kind=kinds.NOT_NEGATIVE,
    ),
    RunOption(
        name="keep_sandbox",
        goal=OfRun("keep_sandbox"),
        flags=("--keep-sandbox",),
        help="`failed`: leave containers of trials that did not pass",
        read=spelling.is_failed,
        annotation='Literal["failed", "never"]',
        about="Whether containers of samples that did not pass are left for a look.",
        take=spelling.is_failed,
    ),
)
