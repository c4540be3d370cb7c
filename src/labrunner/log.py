"""Logs of runs: reading, listing and recovering them from Python."""

from labrunner.evaluation.eval_logs import (
    find_log,
    list_eval_logs,
    read_eval_log,
    recover_eval_log,
    recover_eval_log_async,
    recoverable_eval_logs,
)
from labrunner.solve.logs.logs import EvalError, EvalLog, EvalLogInfo, EvalSamples, EvalSpec
from labrunner.solve.logs.logsample import EvalSample, SampleError, SampleLimit
from labrunner.solve.scoring.totals import EvalMetric, EvalResults, EvalScore

__all__ = [
    "EvalError",
    "EvalLog",
    "EvalLogInfo",
    "EvalMetric",
    "EvalResults",
    "EvalSample",
    "EvalSamples",
    "EvalScore",
    "EvalSpec",
    "SampleError",
    "SampleLimit",
    "find_log",
    "list_eval_logs",
    "read_eval_log",
    "recover_eval_log",
    "recover_eval_log_async",
    "recoverable_eval_logs",
]
