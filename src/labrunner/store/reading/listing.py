"""Finding runs: all of a folder at a glance, or the one that somebody means.

Rule: one run that can't be read is listed as unreadable, with why; it never breaks a listing.
"""

import os
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from labrunner.errors import InputError, LabError, StoreError
from labrunner.experiment.options.table import find_option
from labrunner.files.durable import say
from labrunner.records.run import Counts, StatusRecord
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import RunState, judge_state
from labrunner.store.reading.survey import survey
from labrunner.store.rows.lock import is_owned
from labrunner.store.rows.single_records import decode, read_status

DEFAULT_RUNS: Final = Path(".lab/runs")
_SHOWN: Final = 8


def default_runs() -> Path:
    """Where runs are kept when nobody says so: as the command line's `--log-dir`."""
    return Path(os.environ.get(find_option("log_dir").variable) or DEFAULT_RUNS)


def nearest_runs(asked: Path) -> Path:
    """Where runs are looked for: where somebody said, else here, else in the nearest folder above.

    As git does it, and not beyond the home folder. Where there is none, it is here.
    """
    if asked != DEFAULT_RUNS or asked.is_dir():
        return asked
    # Not Path.home(): that fails for users that no file knows, as containers have them.
    here, home = Path.cwd(), Path(os.path.expanduser("~"))  # noqa: PTH111
    for folder in here.parents if here != home else ():
        if (folder / DEFAULT_RUNS).is_dir():
            return Path(os.path.relpath(folder / DEFAULT_RUNS, here))
        if folder == home:
            break
    return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListing:
    """A run at a glance."""

    paths: RunPaths
    run_id: str
    state: RunState | Literal["unreadable"]
    name: str = ""
    created_at: str = ""
    planned: int = 0
    counts: Counts | None = None
    status: StatusRecord | None = None
    lineage_id: str = ""
    is_report: bool = False
    """Whether it was made from another run without running agents: nothing of it can go on."""
    is_regrade: bool = False
    """Whether it only judges another run's work again."""
    graded_times: int = 1
    """How often it judges each trial."""
    problem: str | None = None
    """Why it can't be read."""


class _ListingHead(msgspec.Struct):
    """What a listing needs of `run.json`; the rest is skipped unread."""

    schema_version: str
    run_id: str
    name: str
    created_at: str
    planned: int
    lineage_id: str
    recovered_from: str | None = None
    is_regrade: bool = False
    graded_times: int = 1


def list_runs(runs_dir: Path) -> list[RunListing]:
    """List every run in a folder, the newest first. No folder: no runs."""
    found = [_look(RunPaths(Path(entry.path))) for entry in _folders(runs_dir)]
    return sorted(found, key=lambda run: (run.created_at, run.run_id), reverse=True)


def find_run(runs_dir: Path, text: str) -> RunPaths:
    """Find the run that somebody means: a path, an id, a unique part of an id, or `last`.

    Raises InputError, with candidates, when there is none or more than one.
    """
    path = Path(text)
    if os.sep in text and path.is_dir():
        return _at_path(path)
    names = sorted(entry.name for entry in _folders(runs_dir))
    if text in names:
        return RunPaths(runs_dir / text)
    if text == "last":
        return _newest(runs_dir)
    matches = [name for name in names if text and text in name]
    if len(matches) == 1:
        return RunPaths(runs_dir / matches[0])
    if not matches and text and path.is_dir():
        return _at_path(path)
    raise InputError("RUN", _tell(runs_dir, text, matches, names))


def address(paths: RunPaths) -> str:
    """What to write for RUN, so that a command that we suggest finds this run from here."""
    return shlex.quote(paths.root.name if paths.root.parent == DEFAULT_RUNS else str(paths.root))


def _folders(runs_dir: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(runs_dir) as entries:
            return [entry for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"listing runs in {runs_dir}: {say(error)}") from error


def _look(paths: RunPaths) -> RunListing:
    try:
        head = decode(paths.run, paths.run.read_bytes(), _ListingHead, "run_v1")
        owned = is_owned(paths)
        status = read_status(paths)
    except LabError as error:
        return RunListing(paths=paths, run_id=paths.root.name, state="unreadable", problem=str(error))
    except OSError as error:
        problem = f"reading {paths.run}: {say(error)}"
        return RunListing(paths=paths, run_id=paths.root.name, state="unreadable", problem=problem)
    return RunListing(
        paths=paths,
        run_id=head.run_id,
        state=judge_state(status, is_owned=owned),
        name=head.name,
        created_at=head.created_at,
        planned=head.planned,
        counts=status.counts if status else None,
        status=status,
        lineage_id=head.lineage_id,
        is_report=head.recovered_from is not None,
        is_regrade=head.is_regrade,
        graded_times=head.graded_times,
    )


def count_again(run: RunListing) -> RunListing:
    """Count a crashed run's results from its rows: its owner died before it could write the last figures.

    What can't be counted stays as the owner wrote it: it is for `lab verify` to say what is wrong.
    """
    if run.state != "crashed":
        return run
    try:
        return replace(run, counts=count_results(run.paths, run.planned))
    except LabError:
        return run


def count_results(paths: RunPaths, planned: int) -> Counts:
    """Count what is finished in a run that nobody owns, from its rows."""
    with survey(paths) as seen:
        committed = seen.committed
        ends = Counter(row.verdict or row.outcome for row in seen.trials())
    return Counts(
        planned=planned,
        committed=committed,
        buffered=ends.total() - committed,
        running=0,
        passed=ends["pass"],
        failed=ends["fail"],
        errors=ends["failed"],
    )


def _at_path(path: Path) -> RunPaths:
    paths = RunPaths(path)
    if not paths.run.exists():
        raise InputError("RUN", f"{path} is a folder without a run.json, so not a run's directory")
    return paths


def _newest(runs_dir: Path) -> RunPaths:
    readable = [run for run in list_runs(runs_dir) if run.state != "unreadable"]
    if not readable:
        raise InputError("RUN", f"there is no run in {runs_dir} yet")
    # A recovered report has the time of its run, and beside it is not what somebody means.
    twins = [run for run in readable if run.created_at == readable[0].created_at and not run.is_report]
    return (twins or readable)[0].paths


def _tell(runs_dir: Path, text: str, matches: list[str], names: list[str]) -> str:
    if matches:
        return f"{text!r} fits {len(matches)} runs in {runs_dir}: {_shorten(matches)}; write more of the id"
    if names:
        return f"no run in {runs_dir} fits {text!r}; there are: {_shorten(names)}"
    return f"no run fits {text!r}: there is no run in {runs_dir}"


def _shorten(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[-_SHOWN:]) + (f", and {more} more" if more > 0 else "")
