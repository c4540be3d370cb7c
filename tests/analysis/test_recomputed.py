"""Every figure of thirty awkward runs, computed again by programs that are not ours."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped] # no types

from labrunner.records.encoding import canonical
from labrunner.runner.reports.results import read_results
from tests.kit.analysis import recomputation
from tests.kit.analysis.awkward_runs import SHAPES, make
from tests.kit.analysis.recomputation import Run, Scale

Plain = dict[str, Any]


@pytest.fixture(scope="module", params=sorted(SHAPES))
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Plain]:
    paths, invalid = make(tmp_path_factory.mktemp("runs"), request.param)
    summary = json.loads(canonical.encode(read_results(paths).summarise()))
    return recomputation.read(Path(paths.root), invalid), summary["ext"]


def agree(found: float | None, expected: float | None, *, rel: float = 1e-6, abs_: float = 1e-9) -> None:
    assert (found is None) == (expected is None), (found, expected)
    if found is not None:
        assert found == pytest.approx(expected, rel=rel, abs=abs_)


def test_counts_means_and_bounds(told: tuple[Run, Plain]) -> None:
    run, ext = told
    for name, figures in ext["figures"].items():
        scale, verdicts = recomputation.scale_of(run, name)
        trials = run.variants[name]
        own = recomputation.scores(run, name, verdicts=verdicts)
        assert figures["graded"] == sum(trial.graded for trial in trials)
        assert figures["passed"] == sum(trial.passed for trial in trials)
        assert figures["errors"] == sum(not trial.graded for trial in trials)
        assert figures["retried"] == sum(trial.attempts > 1 for trial in trials)
        assert figures["attempts"] == sum(trial.attempts for trial in trials)
        assert figures["invalidated"] == len(run.left_out[name])
        agree(figures["observed"], float(np.mean([np.mean(v) for v in own.values()])) if own else None)
        for end, key in ((scale.low, "lower"), (scale.high, "upper")):
            agree(figures[key], _filled(run, name, own, end) if None not in {scale.low, scale.high} else None)


def _filled(run: Run, name: str, own: dict[str, list[float]], end: float | None) -> float:
    assert end is not None
    means = []
    for task in run.tasks:
        values = own.get(task, [])
        means.append(np.mean([*values, *[end] * (run.planned - len(values))]))
    return float(np.mean(means))


def test_intervals_variances_and_repeated_success(told: tuple[Run, Plain]) -> None:
    run, ext = told
    for name, figures in ext["figures"].items():
        scale, verdicts = recomputation.scale_of(run, name)
        own = recomputation.scores(run, name, verdicts=verdicts)
        groups = [run.groups[task] for task in own]
        if own:
            means = np.array([np.mean(v) for v in own.values()])
            expected = recomputation.interval(means, groups, sum(map(len, own.values())), scale)
            if figures["population"] == "these_tasks":
                expected = recomputation.interval_here(list(own.values()), scale)
            found = figures["interval"]
            agree(found and found["low"], expected and expected[0])
            agree(found and found["high"], expected and expected[1])
        repeated = [np.var(v, ddof=1) for v in own.values() if len(v) > 1]
        if len(own) > 1 and repeated:
            within = float(np.mean(repeated))
            spread = float(np.var([np.mean(v) for v in own.values()], ddof=1))
            less = within * float(np.mean([1 / len(v) for v in own.values()]))
            agree(figures["variance"]["within"], within)
            agree(figures["variance"]["between"], max(0.0, spread - less))
        else:
            assert figures["variance"] is None
        _check_repeated(run, name, figures, groups)


def _check_repeated(run: Run, name: str, figures: Plain, groups: list[str | None]) -> None:
    own = recomputation.scores(run, name, verdicts=True)
    shapes = [(int(sum(v)), len(v)) for v in own.values()]
    for one in figures["repeated"]:
        k = one["k"]
        for key, estimates in (
            ("any_passes", [1 - math.comb(n - c, k) / math.comb(n, k) for c, n in shapes]),
            ("all_pass", [math.comb(c, k) / math.comb(n, k) for c, n in shapes]),
        ):
            agree(one[key]["value"], float(np.mean(estimates)))
            tries = sum(n for _, n in shapes) / k
            expected = recomputation.interval(
                np.array(estimates), groups, tries, Scale(0.0, 1.0, "higher", is_rate=True)
            )
            if figures["population"] == "these_tasks":
                verdicts = Scale(0.0, 1.0, "higher", is_rate=True)
                expected = recomputation.interval_here(list(own.values()), verdicts) if k == 1 else None
            elif k > 1 and one["units"] < 10:
                expected = None
            agree(one[key]["low"], expected and expected[0])
            agree(one[key]["high"], expected and expected[1])


def test_comparisons(told: tuple[Run, Plain]) -> None:
    run, ext = told
    baseline = next(iter(run.variants))
    computed: list[recomputation.Others | None] = []
    for found in ext["comparisons"]:
        scale, verdicts = recomputation.scale_of(run, baseline, found["other"])
        sides = [recomputation.scores(run, name, verdicts=verdicts) for name in (baseline, found["other"])]
        tasks = [
            (sides[0][t], sides[1][t], run.groups[t]) for t in run.tasks if t in sides[0] and t in sides[1]
        ]
        assert found["tasks"] == len(tasks)
        if not tasks:
            assert found["conclusion"] in {"not enough data", "undecided because of errors"}
            computed.append(None)
            continue
        d = np.array([np.mean(b) - np.mean(a) for a, b, _ in tasks])
        agree(found["difference"], float(d.mean()))
        sign = -1 if scale.better == "lower" else 1
        tiny = 1e-12 * np.array([max(abs(np.mean(a)), abs(np.mean(b))) for a, b, _ in tasks])
        assert found["wins"] == int((sign * d > tiny).sum())
        assert found["losses"] == int((sign * d < -tiny).sum())
        here = recomputation.ask_here([(a, b) for a, b, _ in tasks], scale)
        others = recomputation.ask_others(tasks, scale) if len(tasks) > 1 else None
        if here is not None and others is not None:
            is_single = all(len(a) == 1 == len(b) for a, b, _ in tasks)
            here, others = recomputation.reconcile(here, others, is_single=is_single)
        shown = found["here"] or {"p": None, "standard_error": None}
        agree(shown["p"], here.p if here else None)
        agree(shown["standard_error"], here.error if here else None)
        computed.append(others)
        _check_errors(run, found, scale, baseline, verdicts=verdicts)
    _check_family(ext["comparisons"], computed)


def _check_family(found: list[Plain], computed: list[recomputation.Others | None]) -> None:
    if not found:
        return
    # Whatever was asked counts, also where data are too few for an answer.
    p_values = [1.0 if each is None else each.p for each in computed]
    adjusted, levels = multipletests(p_values, method="holm")[1], recomputation.levels(p_values)
    for comparison, expected, p_adjusted, level in zip(found, computed, adjusted, levels, strict=True):
        answer = comparison["others"]
        assert (answer is None) == (expected is None)
        if answer is None or expected is None:
            continue
        half = recomputation.half(expected, level)
        agree(answer["p"], expected.p)
        agree(answer["p_adjusted"], float(p_adjusted))
        agree(answer["interval"]["level"], level)
        reach = comparison["reach"] or math.inf
        agree(answer["interval"]["low"], max(-reach, expected.difference - half))
        agree(answer["interval"]["high"], min(reach, expected.difference + half))
        shift = recomputation.detectable(expected.error, expected.degrees, len(found))
        is_shown = expected.units is None or len(found) * 2.0 ** (1 - expected.units) < 0.05
        agree(comparison["detectable"], shift if shift < reach and is_shown else None, rel=1e-5)


def _check_errors(run: Run, found: Plain, scale: Scale, baseline: str, *, verdicts: bool) -> None:
    errored = {
        name: {task: sum(t.task == task and not t.graded for t in run.variants[name]) for task in run.tasks}
        for name in (baseline, found["other"])
    }
    seen = {name: {t.task for t in run.variants[name]} for name in (baseline, found["other"])}
    shared = [task for task in run.tasks if task in seen[baseline] and task in seen[found["other"]]]
    count = sum(errored[name][task] for name in errored for task in shared)
    if not count or scale.low is None or scale.high is None:
        assert found["errors"] is None
        return
    sides = {name: recomputation.scores(run, name, verdicts=verdicts) for name in errored}
    for key, ends in (("low", (scale.high, scale.low)), ("high", (scale.low, scale.high))):
        means = [
            np.mean([*sides[found["other"]].get(task, []), *[ends[1]] * errored[found["other"]][task]])
            - np.mean([*sides[baseline].get(task, []), *[ends[0]] * errored[baseline][task]])
            for task in shared
        ]
        agree(found["errors"][key], float(np.mean(means)))
    assert found["errors"]["trials"] == count


def test_retries(told: tuple[Run, Plain]) -> None:
    run, ext = told
    shift = ext["retry_shift"]
    if not any(trial.attempts > 1 for trials in run.variants.values() for trial in trials):
        assert shift is None
        return
    ratios = []
    for found in shift["variants"]:
        name = found["variant_id"]
        scale, verdicts = recomputation.scale_of(run, name)
        for end, key in ((scale.low, "as_zero"), (scale.high, "as_one")):
            expected = (
                None if None in {scale.low, scale.high} else _rescored(run, name, end, verdicts=verdicts)
            )
            agree(found[key], expected)
        if found["as_zero"] is not None and found["headline"] is not None and scale.low is not None:
            span = (scale.high or 0.0) - scale.low
            move = max(found["headline"] - found["as_zero"], found["as_one"] - found["headline"]) / span
            agree(found["move"], move)
            assert (found["answer"] == "bounded") == (move <= 0.02 or not found["retried"])
        ratios.append(recomputation.odds(run, name))
        agree(found["within_tasks"]["odds_ratio"]["value"], ratios[-1][1], rel=1e-6)
    known = [p for p, _ in ratios if p is not None]
    adjusted = iter(multipletests(known, method="holm")[1]) if known else iter(())
    for found, (p, _) in zip(shift["variants"], ratios, strict=True):
        agree(found["within_tasks"]["p_value"], None if p is None else float(next(adjusted)))


def _rescored(run: Run, name: str, end: float | None, *, verdicts: bool) -> float | None:
    means = []
    for task in run.tasks:
        own = [trial for trial in run.variants[name] if trial.task == task]
        values = [
            end if trial.attempts > 1 else (float(trial.passed) if verdicts else trial.value)
            for trial in own
            if trial.graded or trial.attempts > 1
        ]
        if values:
            means.append(np.mean([value for value in values if value is not None]))
    return float(np.mean(means)) if means else None


def test_prices_and_standings(told: tuple[Run, Plain]) -> None:
    run, ext = told
    costs = {}
    for name, figures in ext["figures"].items():
        expected, found = recomputation.price(run, name), figures["price"]
        assert (found is None) == (expected is None)
        spent = [trial.cost for trial in run.variants[name] if trial.cost is not None]
        if found is None or expected is None:
            continue
        costs[name] = float(np.mean(spent))
        for key, value in zip(("cost_usd", "solved", "value", "low", "high"), expected, strict=True):
            agree(found[key], value, rel=1e-5)
    means = {name: ext["figures"][name]["observed"] for name in costs}
    for standing in ext["standings"]:
        name = standing["variant_id"]
        agree(standing["cost_usd"], costs[name])
        beaten = [
            other
            for other in costs
            if means[other] >= means[name]
            and costs[other] <= costs[name]
            and (means[other], costs[other]) != (means[name], costs[name])
        ]
        assert standing["dominated_by"] == beaten


def test_tags_and_flaky_tasks(told: tuple[Run, Plain]) -> None:
    run, ext = told
    found = ext["breakdown"]
    names = list(run.variants)
    _, verdicts = recomputation.scale_of(run, *names)
    own = {name: recomputation.scores(run, name, verdicts=verdicts) for name in names}
    passes = {name: recomputation.scores(run, name, verdicts=True) for name in names}
    moving = {
        (name, task): np.var(v, ddof=1)
        for name in names
        for task, v in own[name].items()
        if 0 < sum(passes[name][task]) < len(v)
    }
    assert found["flaky_tasks"] == len(moving)
    for each in found["flaky"]:
        agree(each["variance"], float(moving[each["variant_id"], each["task_id"]]))
    for each in found["divided"]:
        agree(
            each["low"],
            float(min(np.mean(own[n][each["task_id"]]) for n in names if each["task_id"] in own[n])),
        )
        agree(
            each["high"],
            float(max(np.mean(own[n][each["task_id"]]) for n in names if each["task_id"] in own[n])),
        )
    for each in found["tags"]:
        tasks = [task for number, task in enumerate(run.tasks) if each["tag"] == f"tag{number % 3}"]
        values = [np.mean(own[each["variant_id"]][task]) for task in tasks]
        agree(each["observed"], float(np.mean(values)))


def test_there_are_thirty_of_them() -> None:
    assert len(SHAPES) >= 30
