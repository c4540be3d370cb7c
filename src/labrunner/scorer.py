"""Scorers and metrics for Python tasks."""

from labrunner.solve.command import command_scorer as command
from labrunner.solve.environment import sandbox
from labrunner.solve.metrics import accuracy, mean, std, stderr, var
from labrunner.solve.modelgraded import model_graded, model_graded_fact, model_graded_qa
from labrunner.solve.sample import Target
from labrunner.solve.score import (
    CORRECT,
    INCORRECT,
    NOANSWER,
    PARTIAL,
    Metric,
    Score,
    metric,
    value_to_float,
)
from labrunner.solve.scorer import Scorer, scorer
from labrunner.solve.scorers import answer, choice, exact, includes, match, pattern

__all__ = [
    "CORRECT",
    "INCORRECT",
    "NOANSWER",
    "PARTIAL",
    "Metric",
    "Score",
    "Scorer",
    "Target",
    "accuracy",
    "answer",
    "choice",
    "command",
    "exact",
    "includes",
    "match",
    "mean",
    "metric",
    "model_graded",
    "model_graded_fact",
    "model_graded_qa",
    "pattern",
    "sandbox",
    "scorer",
    "std",
    "stderr",
    "value_to_float",
    "var",
]
