"""What a grader handed in, decoded strictly into a judgement. Pure.

A grader supplies judgement only; the runner adds identity. Identity that a grader does write must match.
`{"verdict": "pass"}` is a complete score file; so is `{"score": 0.7}`.
"""

import json
import math
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec

from labrunner.errors import GraderFailed
from labrunner.experiment.resolved import LARGEST_SCORE, DeclaredMetric
from labrunner.files.strangers.hostile import Refusal
from labrunner.records.completion import ArtifactRef, Evaluator, Prediction, Verdict
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import Ids

MAX_JUDGEMENT_BYTES: Final = 40 * 1024
MAX_PREDICTION_BYTES: Final = 40 * 1024
SCORE_CAP: Final = 1024 * 1024

Number = float | int
MetricValue = float | int | str | bool | None


class GivenIds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Identity as a grader wrote it, each part optional."""

    run_id: str | None = None
    trial_id: str | None = None
    variant_id: str | None = None
    task_id: str | None = None
    repl_idx: int | None = None


class GivenError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a grader says went wrong with its own work."""

    error_type: str | None = None
    message: str | None = None
    stack: str | None = None


class GivenFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each of a grader's files may say of the row that it becomes."""

    ids: GivenIds | None = None
    schedule_idx: int | None = None
    attempt: int | None = None
    row_seq: int | None = None
    slot_commit_id: str | None = None
    benchmark: dict[str, Any] | None = None  # the runner's own is recorded
    ts: str | None = None


class ScoreFile(GivenFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`benchmark_score.json` as a grader may write it: judgement, and identity if it likes."""

    verdict: Literal["pass", "fail", "missing", "error"] | None = None
    score: Number | None = None
    primary_metric_name: str | None = None
    primary_metric_value: Number | None = None
    metrics: dict[str, MetricValue] = {}
    evaluator: Evaluator | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    ext: dict[str, Any] = {}  # any JSON: the grader's own
    error: GivenError | None = None
    schema_version: Literal["benchmark_score_record_v1"] | None = None


class PredictionFile(GivenFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`benchmark_prediction.json`: `{"kind", "value"}`, or the same under `prediction` with identity."""

    kind: Literal["patch", "text", "json", "artifact_ref"] | None = None
    value: Any = None  # any JSON: the grader's own
    artifact_ref: str | None = None
    metadata: dict[str, Any] | None = None  # any JSON: the grader's own
    prediction: Prediction | None = None
    metrics: dict[str, MetricValue] = {}
    ext: dict[str, Any] = {}  # any JSON: the grader's own
    schema_version: Literal["benchmark_prediction_record_v1"] | None = None


_File = TypeVar("_File", ScoreFile, PredictionFile)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What identity fields in a grader's files must agree with."""

    ids: Ids
    schedule_idx: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A grader's word, ready to become a row."""

    verdict: Verdict
    is_missing: bool
    primary_metric_name: str
    primary_metric_value: float
    metrics: dict[str, MetricValue]
    evaluator: Evaluator
    artifacts: tuple[ArtifactRef, ...]
    ext: dict[str, Any]


def judge(
    data: bytes | Refusal, identity: Identity, *, pass_at: float, metric: DeclaredMetric | None = None
) -> Judgement:
    """Decode a score file into a judgement, or raise `GraderFailed` with the reason."""
    if isinstance(data, Refusal) and data.reason == "missing":
        told = "; a grader writes its verdict into the file that $AGENTLAB_BENCHMARK_SCORE_PATH names"
        raise GraderFailed("score_missing", f"{data.message}{told}")
    given = _decode(data, "score", ScoreFile)
    _check_identity(given, identity, "score")
    if given.verdict is None and given.score is None and not _holds(given, metric):
        raise GraderFailed("score_shape", 'the score file has neither "verdict" nor "score"')
    if given.verdict == "error":
        told = given.error.message if given.error and given.error.message else "no message given"
        raise GraderFailed("grader_says_error", f"the grader reported an error of its own: {told}")
    if not canonical.has_only_finite_numbers(
        [given.ext, given.metrics, given.score, given.primary_metric_value]
    ):
        raise GraderFailed("score_shape", "the score file holds a number that is not finite")
    if metric is None or metric.better == "higher":
        _refuse_contradiction(given, pass_at)
    judgement = _judgement(given, pass_at, metric)
    check_value(judgement.primary_metric_name, judgement.primary_metric_value, metric)
    said = [given.metrics, given.ext, given.artifacts, given.evaluator, given.primary_metric_name]
    if len(canonical.encode(said)) > MAX_JUDGEMENT_BYTES:
        raise GraderFailed(
            "score_too_big",
            f"metrics, artifacts, names and ext of the score file come to more than {MAX_JUDGEMENT_BYTES} "
            "bytes; put large things into a file",
        )
    return judgement


def read_prediction(data: bytes | Refusal, identity: Identity) -> Prediction | None:
    """Decode a prediction file; None when the grader wrote none."""
    if isinstance(data, Refusal) and data.reason == "missing":
        return None
    given = _decode(data, "prediction", PredictionFile)
    _check_identity(given, identity, "prediction")
    if given.prediction is not None:
        prediction = given.prediction
    elif given.kind is not None:
        prediction = Prediction(
            kind=given.kind, value=given.value, artifact_ref=given.artifact_ref, metadata=given.metadata
        )
    else:
        raise GraderFailed("prediction_shape", 'the prediction file has neither "kind" nor "prediction"')
    if len(canonical.encode(prediction)) <= MAX_PREDICTION_BYTES or isinstance(data, Refusal):
        return prediction
    ref = canonical.digest_bytes(data).replace(":", "/")
    return Prediction(kind="artifact_ref", artifact_ref=f"artifact://{ref}")


def _refuse_contradiction(given: ScoreFile, pass_at: float) -> None:
    """Refuse a verdict that its own score denies, on the scale from 0 to 1; other scales are the grader's."""
    if given.verdict is None or given.score is None:
        return
    denies = given.score == 0 < pass_at if given.verdict == "pass" else pass_at <= given.score <= 1
    if denies:
        raise GraderFailed(
            "score_contradiction",
            f'the score file says "verdict": "{given.verdict}" and "score": {given.score:g}, which '
            f"contradict each other where {pass_at:g} passes (grader.pass_at); write one of them, or put "
            "the figure into primary_metric_value",
        )


def check_value(name: str, value: float, metric: DeclaredMetric | None) -> None:
    """Refuse, by `GraderFailed`, a score that is absurdly large, or outside its declared bounds."""
    if abs(value) > LARGEST_SCORE:
        raise GraderFailed(
            "score_absurd", f"{name} is {value:g}; scores beyond {LARGEST_SCORE:g} are no measurements"
        )
    if metric is None:
        return
    low = -math.inf if metric.min is None else metric.min
    high = math.inf if metric.max is None else metric.max
    if not low <= value <= high:
        raise GraderFailed(
            "score_out_of_bounds", f"{name} is {value:g}, outside its declared bounds, {low:g} to {high:g}"
        )


def _holds(given: ScoreFile, metric: DeclaredMetric | None) -> bool:
    return metric is not None and _declared_value(given, metric) is not None


def _declared_value(given: ScoreFile, metric: DeclaredMetric) -> float | None:
    """The value of the declared metric, wherever the grader wrote it."""
    if given.primary_metric_name is not None and given.primary_metric_name != metric.name:
        raise GraderFailed(
            "score_metric",
            f"the score file's primary metric is {given.primary_metric_name!r}; "
            f"the experiment declares {metric.name!r}",
        )
    if given.primary_metric_value is not None:
        return given.primary_metric_value
    if given.score is not None:
        return given.score
    value = given.metrics.get(metric.name)
    return value if isinstance(value, int | float) else None


def _judgement(given: ScoreFile, pass_at: float, metric: DeclaredMetric | None) -> Judgement:
    score = given.score if given.score is not None else given.primary_metric_value
    if metric is not None:
        score = _declared_value(given, metric)
        if score is None:
            raise GraderFailed(
                "score_metric", f"the score file has no value of the declared metric {metric.name!r}"
            )
    verdict = _verdict(given, score, pass_at, metric)
    value = given.primary_metric_value if given.primary_metric_value is not None else score
    name = given.primary_metric_name or ("score" if given.score is not None else "pass")
    return Judgement(
        verdict=verdict,
        is_missing=given.verdict == "missing",
        primary_metric_name=name if metric is None else metric.name,
        primary_metric_value=float(value if value is not None else verdict == "pass"),
        metrics=given.metrics,
        evaluator=given.evaluator or Evaluator(name="grader"),
        artifacts=given.artifacts,
        ext=given.ext,
    )


def _verdict(given: ScoreFile, score: float | None, pass_at: float, metric: DeclaredMetric | None) -> Verdict:
    if given.verdict is not None:
        return "pass" if given.verdict == "pass" else "fail"
    if score is None:
        return "fail"
    is_lower_better = metric is not None and metric.better == "lower"
    return "pass" if (score <= pass_at if is_lower_better else score >= pass_at) else "fail"


def _decode(data: bytes | Refusal, what: str, shape: type[_File]) -> _File:
    if isinstance(data, Refusal):
        raise GraderFailed(f"{what}_{data.reason}", data.message)
    if not data.strip():
        raise GraderFailed(f"{what}_empty", f"the {what} file is empty")
    try:
        plain = canonical.decode_plain(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GraderFailed(f"{what}_not_json", f"the {what} file is not JSON: {error}") from error
    if (name := _find_doubled(data)) is not None:
        raise GraderFailed(f"{what}_shape", f"the {what} file has {name!r} twice in one object: which holds?")
    try:
        return msgspec.convert(plain, shape, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise GraderFailed(f"{what}_shape", f"the {what} file has the wrong shape: {error}") from error


def _find_doubled(data: bytes) -> str | None:
    """A name that stands twice in one object of a JSON text: readers differ in which one they take."""
    doubled: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, value in pairs:
            if name in found:
                doubled.append(name)
            found[name] = value
        return found

    try:
        json.loads(data, object_pairs_hook=look)
    except (ValueError, RecursionError):  # too deep, or a number too long: its shape is wrong anyway
        return None
    return doubled[0] if doubled else None


def _check_identity(given: GivenFile, identity: Identity, what: str) -> None:
    expected = {"schedule_idx": identity.schedule_idx, "attempt": identity.attempt, "row_seq": 0}
    found = {name: getattr(given, name) for name in expected}
    if given.ids is not None:
        expected |= msgspec.structs.asdict(identity.ids)
        found |= msgspec.structs.asdict(given.ids)
    for name, value in found.items():
        if value is not None and value != expected[name]:
            raise GraderFailed(
                f"{what}_ids",
                f"the {what} file speaks of another trial: {name} is {value!r}, expected {expected[name]!r}",
            )
