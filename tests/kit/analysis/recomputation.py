"""Figures of a run computed again from its rows: numpy, scipy and statsmodels, and nothing of ours.

Written from docs/statistics.md alone. It reads JSON lines as anybody would.
"""

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats  # type: ignore[import-untyped] # scipy has no types
from statsmodels.stats.contingency_tables import StratifiedTable  # type: ignore[import-untyped] # no types
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped] # no types

Numbers = np.ndarray[Any, Any]


@dataclass
class Trial:
    """One row."""

    task: str
    graded: bool
    passed: bool
    value: float
    attempts: int
    cost: float | None


@dataclass
class Scale:
    """What is declared of the metric."""

    low: float | None
    high: float | None
    better: str
    is_rate: bool


@dataclass
class Run:
    """Everything that is needed, from files."""

    tasks: list[str]
    groups: dict[str, str | None]
    planned: int
    variants: dict[str, list[Trial]]
    left_out: dict[str, list[str]]
    metric: dict[str, Any] | None
    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def read(root: Path, invalid: set[str]) -> Run:
    record = json.loads((root / "run.json").read_text())
    tasks = [json.loads(line) for line in (root / "tasks.jsonl").read_text().splitlines()]
    order = [variant["id"] for variant in record["experiment"]["variants"]]
    run = Run(
        tasks=[task["id"] for task in tasks],
        groups={task["id"]: task["group"] for task in tasks},
        planned=record["experiment"]["replications"],
        variants={name: [] for name in order},
        left_out={name: [] for name in order},
        metric=tasks[0]["grader"]["metric"],
    )
    times = [json.loads(line) for line in (root / "facts/timings.jsonl").read_text().splitlines()]
    for line, timing in zip((root / "facts/trials.jsonl").read_text().splitlines(), times, strict=True):
        row = json.loads(line)
        name, task = row["ids"]["variant_id"], row["ids"]["task_id"]
        if row["ids"]["trial_id"] in invalid:
            run.left_out[name].append(task)
            continue
        costs = [
            each["usage"]["cost_usd"] for each in timing["attempts"] if "cost_usd" in each.get("usage", {})
        ]
        graded = row["outcome"] == "graded" and abs(row["primary_metric_value"]) <= 1e100
        if graded:
            run.names[name].add(row["primary_metric_name"])
        run.variants[name].append(
            Trial(
                task=task,
                graded=graded,
                passed=graded and row["verdict"] == "pass",
                value=row["primary_metric_value"] if graded else math.nan,
                attempts=len(row["attempts"]),
                cost=sum(costs) if costs else None,
            )
        )
    return run


def scale_of(run: Run, *names: str) -> tuple[Scale, bool]:
    """The scale, and whether verdicts are averaged."""
    metrics = set().union(*(run.names[name] for name in names))
    trials = [trial for name in names for trial in run.variants[name] if trial.graded]
    is_verdict = all(trial.value == trial.passed for trial in trials)
    if len(metrics) != 1:
        return Scale(0.0, 1.0, "higher", is_rate=True), True
    metric = run.metric
    if metric is None or metric["name"] not in metrics:
        # Only where no scale is declared are scores like verdicts taken for such.
        low, high = (0.0, 1.0) if is_verdict else (None, None)
        return Scale(low, high, "higher", is_rate=is_verdict), False
    binary = all(trial.value in {0, 1} for trial in trials)
    is_rate = binary and (metric["min"], metric["max"], metric["better"]) == (0, 1, "higher")
    return Scale(metric["min"], metric["max"], metric["better"], is_rate), False


def scores(run: Run, name: str, *, verdicts: bool) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for trial in run.variants[name]:
        if trial.graded:
            found[trial.task].append(float(trial.passed) if verdicts else trial.value)
    return {task: found[task] for task in run.tasks if task in found}


def cr2(values: Numbers, groups: list[str | None]) -> tuple[float, float, int, float]:
    """Standard error, degrees of freedom, units, and units of equal size, by matrices."""
    n = len(values)
    keys = [f"alone {number}" if group is None else f"group {group}" for number, group in enumerate(groups)]
    names = sorted(set(keys))
    codes = np.array([names.index(key) for key in keys])
    sizes = np.array([(codes == number).sum() for number in range(len(names))])
    away = np.eye(n) - 1 / n
    residuals, total, columns = away @ values, 0.0, []
    for number in range(len(names)):
        own = codes == number
        eigen, basis = np.linalg.eigh(away[np.ix_(own, own)])
        root = basis @ np.diag(eigen**-0.5) @ basis.T
        total += float(np.ones(own.sum()) @ root @ residuals[own]) ** 2
        columns.append(away[:, own] @ root @ np.ones(own.sum()) / n)

    def freedom(likeness: float) -> float:
        g = np.array(columns).T
        spread = g.T @ ((1 - likeness) * np.eye(n) + likeness * (codes[:, None] == codes[None, :])) @ g
        return float(np.trace(spread) ** 2 / (spread**2).sum())

    degrees, most = len(names) - 1.0, 0.0
    if sizes.max() > 1:
        means = np.array([values[codes == number].mean() for number in range(len(names))])
        within = ((values - means[codes]) ** 2).sum() / (n - len(names))
        outside = (sizes * (means - values.mean()) ** 2).sum() / (len(names) - 1)
        typical = (n - (sizes**2).sum() / n) / (len(names) - 1)
        between = max(0.0, (outside - within) / typical)
        likeness = between / (between + within) if between + within else 1.0
        if sizes.min() < sizes.max():
            degrees = 0.1 * freedom(0.0) + 0.9 * freedom(likeness)
        # Searle's upper limit of the intraclass correlation.
        ratio = outside / within / stats.f.ppf(0.01, len(names) - 1, n - len(names)) if within else math.inf
        most = max(0.0, 1 - typical / (ratio + typical - 1)) if ratio < math.inf else 1.0
    effective = n * n / float(((1 - most) * sizes + most * sizes**2).sum())
    return math.sqrt(total) / n, degrees, len(names), effective


def interval(
    means: Numbers, groups: list[str | None], tries: float, scale: Scale
) -> tuple[float, float] | None:
    """Wilson's on the effective size for rates, Student's for others."""
    if len({(g is None, str(i) if g is None else g) for i, g in enumerate(groups)}) < 2:
        return None
    error, degrees, _, units = cr2(means, groups)
    t, p = float(stats.t.ppf(0.975, degrees)), float(means.mean())
    if not scale.is_rate:
        if error < 1e-14:
            return None
        low, high = p - t * error, p + t * error
        if scale.low is None or scale.high is None:
            return low, high
        return max(scale.low, low), min(scale.high, high)
    pq = p * (1 - p)
    doubt = (1 - 4 * pq) * 2 / (2 + units * pq)
    inverse = (1 - doubt) * (error**2 / pq if pq else 0.0) + doubt / units
    size = min(tries, 1 / inverse) if inverse else tries
    q = t * t / size
    centre = (p + q / 2) / (1 + q)
    half = t * math.sqrt(pq / size + q / 4 / size) / (1 + q)
    best = units / (units + t * t)
    low = stats.beta.ppf(0.05, size * p, size * (1 - p) + 1) if p > 0 else 0.0
    high = stats.beta.ppf(0.95, size * p + 1, size * (1 - p)) if p < 1 else 1.0
    return max(0.0, min(centre - half, low, best)), min(1.0, max(centre + half, high, 1 - best))


def interval_here(scores: list[list[float]], scale: Scale) -> tuple[float, float] | None:
    """If these very tasks were run again: trials are what is counted."""
    p, n = float(np.mean([np.mean(each) for each in scores])), len(scores)
    if scale.is_rate:
        size = n * n / sum(1 / len(each) for each in scores)
        z = float(stats.norm.isf(0.025))
        # Wilson's ends are where a score test of the rate is just rejected.
        ends = np.roots([1 + z * z / size, -(2 * p + z * z / size), p * p])
        best = size / (size + z * z)
        low = stats.beta.ppf(0.05, size * p, size * (1 - p) + 1) if p > 0 else 0.0
        high = stats.beta.ppf(0.95, size * p + 1, size * (1 - p)) if p < 1 else 1.0
        return max(0.0, min(*ends, low, best)), min(1.0, max(*ends, high, 1 - best))
    known = [(float(np.var(each, ddof=1)) / len(each), len(each) - 1) for each in scores if len(each) > 1]
    whole = sum(square for square, _ in known)
    if not whole:
        return None
    typical = float(np.mean([np.var(each, ddof=1) for each in scores if len(each) > 1]))
    degrees = whole**2 / sum(square**2 / (free + 1) for square, free in known) - 1
    degrees = min(sum(free for _, free in known), max(1.0, degrees))
    error = math.sqrt(whole + typical * sum(len(each) == 1 for each in scores)) / n
    low, high = stats.t.interval(0.95, degrees, loc=p, scale=error)
    if scale.low is None or scale.high is None:
        return low, high
    return max(scale.low, low), min(scale.high, high)


Pairs = list[tuple[list[float], list[float]]]


def permutation_p(tasks: Pairs) -> float:
    """The mid-p of permuting passes and failures within tasks: every outcome counted, in whole numbers."""
    unit = math.lcm(*(len(side) for pair in tasks for side in pair))
    chances = {0: 1.0}
    for a, b in tasks:
        passed = round(sum(a) + sum(b))
        grown: dict[int, float] = defaultdict(float)
        for k in range(max(0, passed - len(a)), min(len(b), passed) + 1):
            chance = float(stats.hypergeom.pmf(k, len(a) + len(b), passed, len(b)))
            moved = k * unit // len(b) - (passed - k) * unit // len(a)
            for value, other in chances.items():
                grown[value + moved] += chance * other
        chances = grown
    if len(chances) == 1:
        return 1.0  # nothing could have come out otherwise
    seen = abs(sum(round(sum(b)) * unit // len(b) - round(sum(a)) * unit // len(a) for a, b in tasks))
    beyond = math.fsum(chance for value, chance in chances.items() if abs(value) > seen)
    return beyond + math.fsum(chance for value, chance in chances.items() if abs(value) == seen) / 2


@dataclass
class Here:
    """On these tasks."""

    error: float
    degrees: float
    """Infinite: normal."""
    p: float
    units: int | None = None
    """Of rates over units: a clean sweep of these is what the interval allows for at least."""


def ask_here(tasks: Pairs, scale: Scale) -> Here | None:
    pooled = [np.var([*a, *b], ddof=1) * (1 / len(a) + 1 / len(b)) for a, b in tasks]
    difference = abs(float(np.mean([np.mean(b) - np.mean(a) for a, b in tasks])))
    if not scale.is_rate and all(len(a) == 1 == len(b) for a, b in tasks) and len(tasks) == 1:
        return None
    if all(len(a) == 1 == len(b) for a, b in tasks) and len(tasks) > 1:
        # Single trials: luck and how tasks differ are one spread, and groups share no luck.
        found = over_units([(a, b, None) for a, b in tasks], scale)
        return None if found is None else Here(found.error, found.degrees, found.p, found.units)
    if not max(pooled) > 0:
        tries, z = min(sum(len(a) for a, _ in tasks), sum(len(b) for _, b in tasks)), stats.norm.isf(0.025)
        if scale.low is None or scale.high is None:
            return None
        return Here(float((scale.high - scale.low) * z / (tries + z**2)), math.inf, 1.0)
    if not scale.is_rate:
        error, degrees = _luck(tasks)
        return Here(error, degrees, float(2 * stats.t.sf(difference / error, degrees)))
    p, own = permutation_p(tasks), math.sqrt(sum(pooled)) / len(tasks)
    if p > 0.5:
        return Here(float(max(own, difference / stats.norm.isf(0.25))), math.inf, p)
    return Here(float(difference / stats.norm.isf(p / 2)), math.inf, p)


def _luck(tasks: Pairs) -> tuple[float, float]:
    """By variances within tasks, with Satterthwaite's degrees of freedom."""
    sides: tuple[list[list[float]], ...] = ([a for a, _ in tasks], [b for _, b in tasks])
    spreads = [[float(np.var(v, ddof=1)) if len(v) > 1 else math.nan for v in side] for side in sides]
    usual = [float(np.nanmean(each)) if not np.isnan(each).all() else math.nan for each in spreads]
    usual = [next(u for u in usual if not math.isnan(u)) if math.isnan(each) else each for each in usual]
    squares, known = [], []
    for side, spread, mean in zip(sides, spreads, usual, strict=True):
        for values, variance in zip(side, spread, strict=True):
            squares.append((mean if math.isnan(variance) else variance) / len(values))
            known.append((0.0 if math.isnan(variance) else variance / len(values), len(values) - 1))
    whole, most = sum(square for square, _ in known), sum(freedom for _, freedom in known)
    found = whole**2 / sum(square**2 / (freedom + 1) for square, freedom in known if freedom) - 1
    return math.sqrt(sum(squares)) / len(tasks), min(float(most), max(1.0, found))


def reconcile(here: Here, others: "Others", *, is_single: bool) -> tuple[Here, "Others"]:
    """No smaller p of others than of these tasks: together they have the geometric mean, and one answer."""
    size = abs(others.difference)
    if here.p <= others.p:
        first = stats.t.ppf(0.975, here.degrees) * here.error
        if here.p > 0.5 or not size or max(first, swept(size, here.units, 0.95)) <= half(others, 0.95):
            return here, others
        error = size / float(stats.t.isf(here.p / 2, others.degrees))
        return Here(error, others.degrees, here.p), others
    if is_single:
        return Here(others.error, others.degrees, others.p, others.units), others
    if others.p >= 0.5:
        return here, others
    p = math.sqrt(others.p * min(here.p, 0.5))
    error = size / float(stats.t.isf(p / 2, others.degrees))
    both = Others(others.difference, error, others.degrees, p, others.units)
    return Here(error, others.degrees, p, others.units), both


@dataclass
class Others:
    """On tasks like these."""

    difference: float
    error: float
    degrees: float
    p: float
    units: int | None = None
    """As above."""


def swept(difference: float, units: int | None, level: float) -> float:
    """Half the width that a clean sweep leaves: the share of units that may be against, by the binomial."""
    if units is None:
        return 0.0
    against = 1 - float(stats.binomtest(units, units).proportion_ci(level, method="exact").low)
    return 2 * against * difference if against <= 0.5 else difference + 2 * against - 1


def half(others: Others, level: float) -> float:
    t = float(stats.t.ppf((1 + level) / 2, others.degrees))
    return max(t * others.error, swept(abs(others.difference), others.units, level))


Grouped = list[tuple[list[float], list[float], str | None]]


def ask_others(tasks: Grouped, scale: Scale) -> Others | None:
    units = {(g is None, str(i) if g is None else g) for i, (_, _, g) in enumerate(tasks)}
    return over_units(tasks, scale) if len(units) >= 6 else None


def over_units(tasks: Grouped, scale: Scale) -> Others | None:
    d = np.array([np.mean(b) - np.mean(a) for a, b, _ in tasks])
    sizes = np.array([max(abs(np.mean(a)), abs(np.mean(b))) for a, b, _ in tasks])
    d[np.abs(d) <= 1e-12 * sizes] = 0.0
    groups = [group for _, _, group in tasks]
    if len({(g is None, str(i) if g is None else g) for i, g in enumerate(groups)}) < 2:
        return None
    error, degrees, units, effective = cr2(d, groups)
    t = float(stats.t.ppf(0.975, degrees))
    sums: dict[object, float] = defaultdict(float)
    for number, (value, group) in enumerate(zip(d, groups, strict=True)):
        sums[number if group is None else group] += value
    differing = sum(value != 0 for value in sums.values())
    mean = float(d.mean())
    if not differing:
        if scale.low is None or scale.high is None:
            return None
        return Others(0.0, (scale.high - scale.low) * t / (effective + t * t), degrees, 1.0)
    all_equal = error <= 1e-12 * abs(mean)
    used, floor = error, 2.0 ** (1 - units) if all_equal or scale.is_rate else 0.0
    if scale.is_rate:
        step = np.mean([1 / max(len(a), len(b)) ** 2 for a, b, _ in tasks]) / (len(d) * (len(d) - 1))
        step *= 2.0 ** (5 - max(6, units))
        used = max(math.sqrt(error**2 + step), abs(mean) * t / (effective + t * t))
    p = float(2 * stats.t.sf(abs(mean) / used, degrees)) if used else 0.0
    if p < floor:
        p = floor
        used = used if scale.is_rate else abs(mean) / float(stats.t.isf(floor / 2, degrees))
    return Others(mean, used, degrees, p, units if scale.is_rate else None)


def levels(p_values: list[float]) -> list[float]:
    """Equal levels that hold together; what only Holm's further steps reject has that of its step."""
    count = len(p_values)
    holm, bonferroni = (multipletests(p_values, method=each)[0] for each in ("holm", "bonferroni"))
    ranks = np.argsort(np.argsort(p_values, kind="stable"), kind="stable")
    return [
        1 - 0.05 / (count - int(rank) if stepped and not at_once else count)
        for stepped, at_once, rank in zip(holm, bonferroni, ranks, strict=True)
    ]


def detectable(error: float, degrees: float, family: int) -> float:
    limit = stats.t.ppf(1 - 0.025 / family, degrees)
    root = optimize.brentq(lambda shift: stats.nct.sf(limit, degrees, shift) - 0.8, 0.5, 60.0)
    return float(root * error)


def price(run: Run, name: str) -> tuple[float, int, float | None, float | None, float | None] | None:
    units: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for trial in run.variants[name]:
        if trial.cost is not None:
            group = run.groups[trial.task]
            key = f"task {trial.task}" if group is None else f"group {group}"
            units[key][0] += trial.cost
            units[key][1] += trial.passed
    if not units:
        return None
    costs, solved = np.array(list(units.values())).T
    if not solved.sum():
        return float(costs.sum()), 0, None, None, None
    value = float(costs.sum() / solved.sum())
    if len(units) < 2:
        return float(costs.sum()), int(solved.sum()), value, None, None
    if solved.std() == 0 and costs.std() == 0:
        return float(costs.sum()), int(solved.sum()), value, value, value

    def doubt(ratio: float) -> float:
        d = costs - ratio * solved
        return float(abs(d.mean()) / (d.std(ddof=1) / math.sqrt(len(d))) - stats.t.ppf(0.975, len(d) - 1))

    if abs(solved.mean()) <= stats.t.ppf(0.975, len(solved) - 1) * stats.sem(solved):
        return float(costs.sum()), int(solved.sum()), value, None, None
    high = float(optimize.brentq(doubt, value + 1e-12, value * 1e4)) if doubt(value * 1e4) > 0 else None
    low = float(optimize.brentq(doubt, 0.0, value - 1e-12)) if doubt(0.0) > 0 else 0.0
    return float(costs.sum()), int(solved.sum()), value, low, high


def odds(run: Run, name: str) -> tuple[float | None, float | None]:
    """p of Cochran, Mantel and Haenszel for having been retried and having passed, and the odds ratio."""
    tables = []
    for task in run.tasks:
        own = [trial for trial in run.variants[name] if trial.task == task and trial.graded]
        table = np.array(
            [
                [sum((t.attempts > 1) == again and t.passed == done for t in own) for done in (True, False)]
                for again in (True, False)
            ],
            dtype=float,
        )
        if table.sum() > 1 and (table.sum(axis=0) > 0).all() and (table.sum(axis=1) > 0).all():
            tables.append(table)
    if not tables:
        return None, None
    found = StratifiedTable(tables)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(found.oddsratio_pooled)
    p = float(found.test_null_odds(correction=True).pvalue)
    # The correction never takes the distance below zero.
    excess = sum(t[0, 0] - t[0].sum() * t[:, 0].sum() / t.sum() for t in tables)
    return (1.0 if abs(excess) < 0.5 else p), (ratio if 0 < ratio < math.inf else None)
