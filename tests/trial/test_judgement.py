import json

import pytest

from labrunner.errors import GraderFailed
from labrunner.experiment.resolved import DeclaredMetric
from labrunner.records.encoding.ids import Ids
from labrunner.trial.judgement import Identity, Judgement, judge

IDENTITY = Identity(
    ids=Ids(run_id="run", trial_id="t", variant_id="a", task_id="t0", repl_idx=0), schedule_idx=0, attempt=1
)
SECONDS = DeclaredMetric(name="seconds", better="lower", min=0.0, max=600.0)


def judged(
    score: dict[str, object], *, metric: DeclaredMetric | None = SECONDS, pass_at: float = 10.0
) -> Judgement:
    return judge(json.dumps(score).encode(), IDENTITY, pass_at=pass_at, metric=metric)


@pytest.mark.parametrize(
    "score",
    [
        {"score": 5.3},
        {"primary_metric_name": "seconds", "primary_metric_value": 5.3, "verdict": "pass"},
        {"metrics": {"seconds": 5.3}},
        {"verdict": "pass", "metrics": {"seconds": 5.3, "tokens": 12}},
    ],
)
def test_the_declared_metric_is_found_wherever_the_grader_wrote_it(score: dict[str, object]) -> None:
    found = judged(score)
    assert (found.primary_metric_name, found.primary_metric_value, found.verdict) == ("seconds", 5.3, "pass")


def test_where_lower_is_better_a_score_passes_up_to_pass_at() -> None:
    assert [judged({"score": value}).verdict for value in (9.0, 10.0, 11.0)] == ["pass", "pass", "fail"]


@pytest.mark.parametrize("value", [-0.1, 600.5])
def test_a_score_outside_its_declared_bounds_is_an_error_of_the_grader(value: float) -> None:
    with pytest.raises(GraderFailed, match=r"outside its declared bounds, 0 to 600") as caught:
        judged({"score": value})
    assert caught.value.reason == "score_out_of_bounds"


@pytest.mark.parametrize("value", [-1e200, 1e308, 1.1e100])
def test_a_score_that_is_no_measurement_is_refused_as_such(value: float) -> None:
    with pytest.raises(GraderFailed, match="are no measurements") as caught:
        judged({"score": value}, metric=None)
    assert caught.value.reason == "score_absurd"


def test_another_metric_than_the_declared_one_is_refused() -> None:
    with pytest.raises(GraderFailed, match="primary metric is 'tokens'; the experiment declares 'seconds'"):
        judged({"verdict": "pass", "primary_metric_name": "tokens", "primary_metric_value": 3})
    with pytest.raises(GraderFailed, match="no value of the declared metric 'seconds'"):
        judged({"verdict": "pass"})
