"""Logs of runs: reading, listing and recovering them."""

from pathlib import Path

from labrunner.evaluation.to_end import run_to_end
from labrunner.runner.resume.recovering import recover_run, recoverable
from labrunner.solve.logs.logs import EvalLog, EvalLogInfo, LogFilter
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import RunListing, default_runs, find_run, list_runs


def read_eval_log(log: "str | Path | EvalLog | EvalLogInfo", header_only: bool = False) -> EvalLog:
    """Read a log: a run's directory, its id or a part of it, `last`, or a log that is read anew.

    Samples are always read when they are asked for, so `header_only` changes nothing.
    """
    del header_only
    return EvalLog(find_log(log).root)


def list_eval_logs(
    log_dir: str | Path | None = None,
    filter: LogFilter | None = None,
) -> list[EvalLogInfo]:
    """List the logs of a directory, the newest first. One that can't be read is listed as unreadable.

    Without one: of `LAB_LOG_DIR`, else of `.lab/runs`.
    """
    logs = [_info(run) for run in list_runs(Path(log_dir or default_runs()))]
    return [log for log in logs if filter is None or filter(log)]


def recoverable_eval_logs(log_dir: str | Path | None = None) -> list[EvalLogInfo]:
    """List the logs of runs that crashed, the newest first; of which directory, as for all logs."""
    return [_info(run) for run in recoverable(Path(log_dir or default_runs()))]


def recover_eval_log(
    log: "str | Path | EvalLog | EvalLogInfo", output: str | Path | None = None, overwrite: bool = False
) -> EvalLog:
    """Make a complete log of a crashed run, without running anything.

    Beside it, at `output`, or in its place.
    """
    work = recover_eval_log_async(log, output, overwrite)
    return run_to_end(work, "recover_eval_log_async")


async def recover_eval_log_async(
    log: "str | Path | EvalLog | EvalLogInfo", output: str | Path | None = None, overwrite: bool = False
) -> EvalLog:
    """The same in a loop that runs already."""
    place = Path(output) if output is not None else None
    recovered = await recover_run(find_log(log), output=place, overwrite=overwrite)
    return EvalLog(recovered.paths.root)


def find_log(log: "str | Path | EvalLog | EvalLogInfo") -> RunPaths:
    """The run that a log, a path, an id or a part of one means."""
    match log:
        case EvalLog():
            return RunPaths(Path(log.location))
        case EvalLogInfo():
            return RunPaths(Path(log.name))
        case _:
            path = Path(log)
            return RunPaths(path) if (path / "run.json").exists() else find_run(default_runs(), str(log))


def _info(run: RunListing) -> EvalLogInfo:
    return EvalLogInfo(
        name=str(run.paths.root),
        task=run.name,
        status="started" if run.state == "crashed" else run.state,
        created=run.created_at,
        problem=run.problem,
    )
