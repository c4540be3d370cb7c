"""From scores to the end of an attempt: verdict, metrics, and what a row can hold of the rest. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from labrunner.errors import AttemptFailed
from labrunner.experiment.resolved import LARGEST_SCORE
from labrunner.files.strangers.masking import Masker
from labrunner.records.cause import Cause
from labrunner.records.completion import EndedBy, Evaluator, Failed, Graded, Prediction
from labrunner.records.encoding import canonical
from labrunner.solve.values.description import describe, is_plain
from labrunner.solve.values.plain import as_number
from labrunner.solve.values.score import Score, value_to_float
from labrunner.solve.values.transcript import shorten
from labrunner.store.reading.fullscores import FULL_SCORES
from labrunner.trial.judgement import MAX_JUDGEMENT_BYTES, Judgement

PASS_AT: Final = 1.0
_MOST_TEXT: Final = 4096
_LEAST_TEXT: Final = 128
_MOST_PREDICTION: Final = 24 * 1024
_TOO_LONG: Final = f"too long for a row; it is whole in the attempt's {FULL_SCORES}"


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


def mask_score(score: Score, masker: Masker) -> Score:
    """A score whose texts hold no secrets, its metadata's among them."""
    masked = masker.mask_plain(
        {name: getattr(score, name) for name in ("value", "answer", "explanation", "metadata")}
    )
    assert isinstance(masked, dict)  # as it was given
    return Score(**masked)


def settle_score(name: str, score: Score) -> Score:
    """A score of plain values, whatever library its numbers are from. Raises ScoringFailed."""
    value = score.value
    if isinstance(value, Mapping):
        value = {str(key): _settled(each) for key, each in value.items()}
    elif callable(listing := getattr(value, "tolist", None)) and as_number(value) is None:
        value = listing()
    elif isinstance(value, list | tuple):
        value = [_settled(each) for each in value]
    else:
        value = _settled(value)
    return Score(
        value,
        _settled_text(name, "answer", score.answer),
        _settled_text(name, "explanation", score.explanation),
        describe(score.metadata) if score.metadata else None,
    )


def _settled(value: Any) -> Any:  # noqa: ANN401 - a scorer's own
    number = as_number(value)
    return number if number is not None else str.__str__(value) if isinstance(value, str) else value


def _settled_text(name: str, field: str, given: object) -> str | None:
    """A text of a score: numbers are written out, anything else is refused."""
    if given is None or isinstance(given, str):
        return None if given is None else str.__str__(given)
    number = as_number(given)
    if number is None:
        told = f"scorer {name} gave a {type(given).__name__} as its {field}, expected text"
        raise ScoringFailed(f"{field}_not_text", told)
    return str(number)


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
                metrics[f"{name}.{key}"] = _finite(f"{name}, {key}", value)
    return metrics


def _number(name: str, score: Score) -> float:
    """A score as one number: of several values, their mean."""
    value = score.value
    if isinstance(value, Mapping):
        numbers = [_finite(f"{name}, {key}", each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        numbers = [_finite(f"{name}, value {at}", each) for at, each in enumerate(value)]
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
    if not abs(number) <= LARGEST_SCORE:  # nor what is no number
        raise ScoringFailed("score_not_finite", f"scorer {name} gave {number}, which is no score")
    return number


def write_in_full(scores: Mapping[str, Score]) -> bytes | None:
    """Scores whose texts a row has no room for, whole; None where the row holds all of it."""
    whole = {name: _plain(score, None) for name, score in scores.items()}
    return canonical.encode(whole) if whole != _recorded(scores) else None


def _recorded(scores: Mapping[str, Score]) -> dict[str, Any]:
    """Scores as a row holds them: texts shortened until they fit."""
    most = _MOST_TEXT
    while True:
        plain = {name: _plain(score, most) for name, score in scores.items()}
        if most < _LEAST_TEXT or len(canonical.encode(plain)) < MAX_JUDGEMENT_BYTES // 2:
            return plain
        most //= 4


def _plain(score: Score, most: int | None) -> dict[str, Any]:
    """A score as JSON, with at most so many characters of each text; None: all of them."""
    plain: dict[str, Any] = {"value": describe(score.value)}
    if score.answer is not None:
        plain["answer"] = _shortened(score.answer, most)
    if score.explanation is not None and score.explanation != score.answer:
        plain["explanation"] = _shortened(score.explanation, most)
    if score.metadata:
        metadata = score.metadata if is_plain(score.metadata) else describe(score.metadata)
        fits = most is None or len(canonical.encode(metadata)) < most
        plain["metadata"] = metadata if fits else _TOO_LONG
    return plain


def _shortened(text: str, most: int | None) -> str:
    return _clean(text if most is None else shorten(text, most))


def _prediction(completion: str | None) -> Prediction | None:
    if completion is None:
        return None
    return Prediction(kind="text", value=_clean(shorten(completion, _MOST_PREDICTION)))


def _clean(text: str) -> str:
    """A text that can be written as UTF-8: half a character becomes a question mark."""
    return text.encode(errors="replace").decode()
