"""From scores to the end of an attempt: verdict, metrics, and what a row can hold of the rest. Pure."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from labrunner.errors import AttemptFailed
from labrunner.records import canonical
from labrunner.records.cause import Cause
from labrunner.records.completion import EndedBy, Evaluator, Failed, Graded, Prediction
from labrunner.solve.description import describe, is_plain
from labrunner.solve.score import Score, value_to_float
from labrunner.solve.transcript import shorten
from labrunner.trial.judgement import MAX_JUDGEMENT_BYTES, Judgement

PASS_AT: Final = 1.0
_MOST_TEXT: Final = 4096
_LEAST_TEXT: Final = 128
_MOST_PREDICTION: Final = 24 * 1024


class ScoringFailed(AttemptFailed):
    """A scorer gave nothing that can be used."""

    cause = Cause.SOLVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is known about a scored attempt besides its scores."""

    completion: str | None
    """What the solver answered; None where there is no answer of its own."""
    ended_by: EndedBy | None
    flags: tuple[str, ...] = ()


def grade(scores: Mapping[str, Score], judgement: Judgement | None, finding: Finding) -> Graded:
    """The end of an attempt whose scorers have spoken; the first one decides the verdict."""
    metrics = _metrics(scores)
    ext: dict[str, Any] = {"scores": _recorded(scores)} if scores else {}
    if judgement is not None:
        metrics |= judgement.metrics
        ext |= judgement.ext
        metrics.setdefault("command", judgement.primary_metric_value)
    name, value = _primary(scores, judgement)
    verdict = judgement.verdict if judgement is not None and not scores else _verdict(value)
    return Graded(
        verdict=verdict,
        primary_metric_name=name,
        primary_metric_value=value,
        evaluator=judgement.evaluator if judgement is not None and not scores else Evaluator(name=name),
        metrics=metrics,
        prediction=_prediction(finding.completion),
        artifacts=judgement.artifacts if judgement is not None else (),
        ext=ext,
        ended_by=finding.ended_by,
        flags=(*finding.flags, *(("missing",) if judgement is not None and judgement.is_missing else ())),
    )


def mask_score(score: Score, mask: Callable[[str], str]) -> Score:
    """A score whose texts hold no secrets."""
    answer = None if score.answer is None else mask(score.answer)
    explanation = None if score.explanation is None else mask(score.explanation)
    value = mask(score.value) if isinstance(score.value, str) else score.value
    return Score(value, answer, explanation, score.metadata)


def blame(error: BaseException, doing: str, traceback: str) -> Failed:
    """Who is to blame for what a task's code raised: whoever failed below it, else the code itself."""
    for each in _chain(error):
        if isinstance(each, AttemptFailed):
            return Failed(cause=each.cause, reason=each.reason, message=str(each), traceback=traceback)
    return Failed(
        cause=Cause.SOLVER,
        reason=type(error).__name__,
        message=f"{doing}: {type(error).__name__}: {error}",
        traceback=traceback,
    )


def _chain(error: BaseException) -> list[BaseException]:
    """An error with what it was raised from, and what a group of errors holds."""
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop(0)
        if each is None or each in found:
            continue
        found.append(each)
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
        waiting.append(each.__cause__)
    return found


def _primary(scores: Mapping[str, Score], judgement: Judgement | None) -> tuple[str, float]:
    if scores:
        name, score = next(iter(scores.items()))
        return name, _number(name, score)
    if judgement is None:
        raise ScoringFailed("no_score", "there is no scorer that gave a score")
    return judgement.primary_metric_name, judgement.primary_metric_value


def _verdict(value: float) -> Any:  # noqa: ANN401 - a literal
    return "pass" if value >= PASS_AT else "fail"


def _metrics(scores: Mapping[str, Score]) -> dict[str, float | int | str | bool | None]:
    metrics: dict[str, float | int | str | bool | None] = {}
    for name, score in scores.items():
        metrics[name] = _number(name, score)
        if isinstance(score.value, Mapping):
            for key, value in score.value.items():
                metrics[f"{name}.{key}"] = _finite(name, value)
    return metrics


def _number(name: str, score: Score) -> float:
    """A score as one number: of several values, their mean."""
    value = score.value
    if isinstance(value, Mapping):
        numbers = [_finite(name, each) for each in value.values()]
    elif isinstance(value, list | tuple):
        numbers = [_finite(name, each) for each in value]
    else:
        return _finite(name, value)
    if not numbers:
        raise ScoringFailed("score_empty", f"scorer {name} gave a score without a value")
    return math.fsum(numbers) / len(numbers)


def _finite(name: str, value: Any) -> float:  # noqa: ANN401 - a scorer's own
    try:
        number = value_to_float(value)
    except ValueError as error:
        raise ScoringFailed("score_not_number", f"scorer {name}: {error}") from error
    if not math.isfinite(number):
        raise ScoringFailed("score_not_finite", f"scorer {name} gave {number}, which is no score")
    return number


def _recorded(scores: Mapping[str, Score]) -> dict[str, Any]:
    """Scores as a row holds them: texts shortened until they fit; the transcript has all of it."""
    most = _MOST_TEXT
    while True:
        plain = {name: _plain(score, most) for name, score in scores.items()}
        if most < _LEAST_TEXT or len(canonical.encode(plain)) < MAX_JUDGEMENT_BYTES // 2:
            return plain
        most //= 4


def _plain(score: Score, most: int) -> dict[str, Any]:
    plain: dict[str, Any] = {"value": describe(score.value)}
    if score.answer is not None:
        plain["answer"] = _clean(shorten(score.answer, most))
    if score.explanation is not None and score.explanation != score.answer:
        plain["explanation"] = _clean(shorten(score.explanation, most))
    if score.metadata:
        metadata = score.metadata if is_plain(score.metadata) else describe(score.metadata)
        plain["metadata"] = metadata if len(canonical.encode(metadata)) < most else "too long for a row"
    return plain


def _prediction(completion: str | None) -> Prediction | None:
    if completion is None:
        return None
    return Prediction(kind="text", value=_clean(shorten(completion, _MOST_PREDICTION)))


def _clean(text: str) -> str:
    """A text that can be written as UTF-8: half a character becomes a question mark."""
    return text.encode(errors="replace").decode()
