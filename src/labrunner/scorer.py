"""Scorers and metrics for Python tasks."""

from labrunner.solve.authoring.command import command_scorer as command
from labrunner.solve.authoring.scorer import Scorer, scorer
from labrunner.solve.library.modelgraded import model_graded, model_graded_fact, model_graded_qa
from labrunner.solve.library.scorers import answer, choice, exact, includes, match, pattern
from labrunner.solve.models.environment import sandbox
from labrunner.solve.scoring.metrics import accuracy, mean, std, stderr, var
from labrunner.solve.values.sample import Target
from labrunner.solve.values.score import (
    CORRECT,
    INCORRECT,
    NOANSWER,
    PARTIAL,
    Metric,
    Score,
    metric,
    value_to_float,
)

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
