"""What is simulated: each study draws many runs, asks the product's own functions, and counts.

Rules: the functions are those that `lab show` and `lab compare` call, not copies of them; a study's draws
are seeded by its name and setting, so that anybody gets the same figures. Runs whose sums are the same get
the same answer, and are asked about once: so there can be many of them.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from bench.simulation.populations import (
    LAYOUTS,
    Numbers,
    draw_group_effects,
    draw_groups,
    draw_pairs,
    draw_rates,
    improve,
)
from labrunner.analysis.comparing.answer import Answer, Span
from labrunner.analysis.comparing.pairing import PairedTask
from labrunner.analysis.comparing.power import Layout, Pilot
from labrunner.analysis.comparing.questions import ask_here, ask_others
from labrunner.analysis.describing.figures import compute_all
from labrunner.analysis.describing.repeated import Bounded, repeated_success
from labrunner.analysis.inference.clusters import bell_mccaffrey, cluster
from labrunner.analysis.inference.interval import TaskMean, mean_interval
from labrunner.analysis.judging.outage import find_outage
from labrunner.analysis.judging.retryshift import report_retries
from labrunner.analysis.report import make_arms
from labrunner.analysis.sums.expense import Expense
from labrunner.analysis.sums.measure import Measure
from labrunner.analysis.sums.tally import Cell, Tally, VariantTally
from labrunner.records.glance import AttemptGlance, AttemptTimes, GlanceIds, TimingGlance, TrialGlance

RATE: Final = Measure(name="pass", is_rate=True, low=0.0, high=1.0)
MANY: Final = 50
"""With so many tasks hardly two runs are alike, and a fifth of them is drawn."""
Figures = dict[str, float]
Counts = np.ndarray[Any, np.dtype[np.int64]]
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


def chance_of(*setting: object) -> np.random.Generator:
    """A generator that every setting has to itself."""
    seed = hashlib.sha256(repr(setting).encode()).digest()[:8]
    return np.random.default_rng(int.from_bytes(seed))


def cover_mean(tasks: int, trials: int, kind: str, rate: float, runs: int) -> Figures:
    """How often the interval of a mean rate holds the truth."""
    chance = chance_of("mean", tasks, trials, kind, rate)
    passes = chance.binomial(trials, draw_rates(kind, rate, (runs, tasks), chance))
    held = 0
    for row, count in _alike(passes, passes.sum(axis=1), (passes**2).sum(axis=1)):
        found = mean_interval([TaskMean(mean=each / trials, graded=trials) for each in row], is_rate=True)
        held += count * (found is not None and found.low <= rate <= found.high)
    return {"coverage": held / runs}


def cover_repeated(tasks: int, trials: int, kind: str, rate: float, runs: int) -> Figures:
    """How often intervals of pass@k and pass^k hold the truth, for every k above 1."""
    chance = chance_of("repeated", tasks, trials, kind, rate)
    sample = draw_rates(kind, rate, (1, 400_000), chance)
    passes = chance.binomial(trials, draw_rates(kind, rate, (runs, tasks), chance))
    truths = {
        k: (float((1 - (1 - sample) ** k).mean()), float((sample**k).mean())) for k in range(2, trials + 1)
    }
    held = {f"{name} {k}": 0 for k in truths for name in ("any", "all")}
    for row, count in _alike(passes, *((passes == each).sum(axis=1) for each in range(trials))):
        cells = {str(n): Cell(graded=trials, passed=passed) for n, passed in enumerate(row)}
        for found in repeated_success(cells, {})[1:]:
            any_truth, all_truth = truths[found.k]
            held[f"any {found.k}"] += count * _holds(found.any_passes, any_truth)
            held[f"all {found.k}"] += count * _holds(found.all_pass, all_truth)
    return {name: count / runs for name, count in held.items()}


def _holds(figure: Bounded, truth: float) -> bool:
    return figure.low is not None and figure.high is not None and figure.low <= truth <= figure.high


def _alike(rows: Counts, *keys: Counts) -> Iterator[tuple[list[int], int]]:
    """One row of each kind, and how many there are: rows are of a kind whose keys are all the same."""
    _, first, counts = np.unique(np.stack(keys, axis=1), axis=0, return_index=True, return_counts=True)
    yield from zip(rows[first].tolist(), counts.tolist(), strict=True)


def judge_pairs(tasks: int, trials: int, kind: str, runs: int, *, is_better: bool) -> Figures:
    """Coverage of the difference, and how often one is shown: by us, and by plain t."""
    chance = chance_of("pairs", tasks, trials, kind, is_better)
    before, after = draw_pairs(kind, (runs if tasks < MANY else runs // 5, tasks), chance)
    after = improve(after) if is_better else after
    return _judge(before, after, trials, [None] * tasks, chance)


def judge_here(tasks: int, trials: int, kind: str, runs: int) -> Figures:
    """How often a difference is shown on these tasks, where there is none."""
    chance = chance_of("here", tasks, trials, kind)
    before, after = draw_pairs(kind, (runs, tasks), chance)
    a, b = chance.binomial(trials, before), chance.binomial(trials, after)
    answers = [ask_here(_cells(*row, trials), RATE) for row in zip(a.tolist(), b.tolist(), strict=True)]
    return {"here": sum(each is not None and each.p < 0.05 for each in answers) / runs}


def judge_groups(layout: str, effect: float, trials: int, runs: int) -> Figures:
    """The same where groups favour variants differently."""
    chance = chance_of("groups", layout, effect, trials)
    sizes = LAYOUTS[layout]
    before, after = draw_group_effects(effect, sizes, runs, chance)
    return _judge(before, after, trials, _names(sizes), chance)


def cover_groups(layout: str, likeness: float, rate: float, trials: int, runs: int) -> Figures:
    """How often the interval of a mean rate over groups holds the truth."""
    chance = chance_of("cover groups", layout, likeness, rate, trials)
    sizes = LAYOUTS[layout]
    groups = _names(sizes)
    passes = chance.binomial(trials, draw_groups(likeness, rate, sizes, runs, chance)) / trials
    held, plain = 0, 0
    for row in passes.tolist():
        means = [TaskMean(mean=m, graded=trials, group=g) for m, g in zip(row, groups, strict=True)]
        found = mean_interval(means, is_rate=True)
        held += found is not None and found.low <= rate <= found.high
        low, high = _plain_cr2(row, groups)
        plain += low <= rate <= high
    return {"coverage": held / runs, "cr2": plain / runs}


def reach_power(layout: tuple[int, ...], trials: int, runs: int) -> Figures:
    """How often the difference that `lab plan` promises four times out of five is shown."""
    tasks, rate = sum(layout), 0.35
    pilot = Pilot(
        baseline="a",
        other="b",
        measure="pass",
        tasks=1_000,
        units=1_000,
        within=2 * 0.24,
        between=0.0,
        between_groups=0.0,
        correlation=None,
        is_rate=True,
        reach=1.0,
    )
    promised = pilot.detectable(Layout(sizes=layout), tasks, trials)
    if promised is None or rate + promised > 1:
        return {"promised": math.nan, "shown": math.nan}
    chance = chance_of("power", layout, trials)
    before, after = np.full((runs, tasks), rate), np.full((runs, tasks), rate + promised)
    groups = _names(layout) if max(layout) > 1 else [None] * tasks
    return {"promised": promised, "shown": _judge(before, after, trials, groups, chance)["shown"]}


def alarm_retries(tasks: int, trials: int, clustering: float, runs: int) -> Figures:
    """False alarms where errors strike at random, or pile up on some tasks, and change nothing."""
    chance = chance_of("retries", tasks, trials, clustering)
    alarms = {"rate": 0, "odds": 0}
    for _ in range(runs):
        rates, passing = _retry_rates(tasks, clustering, chance), chance.beta(0.7, 0.7, tasks)
        tally = Tally({str(n): None for n in range(tasks)})
        for name in ("a", "b"):
            tally.variants[name] = _retried(rates, passing, trials, chance)
        planned = {"a": tasks * trials, "b": tasks * trials}
        figures = compute_all(tally, planned, with_intervals=False)
        found = report_retries(list(zip(make_arms(tally, planned), figures, strict=True)))
        told = " ".join(found.notes) if found else ""
        alarms["rate"] += "retry rate differs" in told
        alarms["odds"] += "end otherwise" in told
    return {name: count / runs for name, count in alarms.items()}


def alarm_outage(order: str, trials: int, giving_up: float, hit: float, runs: int) -> Figures:
    """How often an outage is told: where there is none (`hit` is 0), and where it hit this share of a run."""
    chance, tasks = chance_of("outage", order, trials, giving_up, hit), 60
    told = sum(
        find_outage(_clocked(order, tasks, trials, giving_up, hit, chance).variants) is not None
        for _ in range(runs)
    )
    return {"told": told / runs}


def _judge(
    before: Numbers, after: Numbers, trials: int, groups: Sequence[str | None], chance: np.random.Generator
) -> Figures:
    runs, truth = len(before), float((after - before).mean())
    a, b = chance.binomial(trials, before), chance.binomial(trials, after)
    keys: list[Counts] = [(b - a).sum(axis=1), ((b - a) ** 2).sum(axis=1)]
    if any(group is not None for group in groups):
        keys.append(np.arange(runs))  # groups have sums of their own: every run is of its own kind
    counts = dict.fromkeys(("coverage", "shown", "t", "cr2"), 0)
    for row, count in _alike(np.concatenate([a, b], axis=1), *keys):
        scored = score_pairs(row[: len(groups)], row[len(groups) :], trials, groups)
        found, values = ask_others(scored, RATE), [each for _, each in scored]
        if found is not None:
            counts["coverage"] += count * (found.interval.low <= truth <= found.interval.high)
            counts["shown"] += count * (found.p < 0.05)
        counts["t"] += count * (plain_t(values) < 0.05)
        low, high = _plain_cr2(values, groups)
        counts["cr2"] += count * (low <= truth <= high)
    shares = {name: count / runs for name, count in counts.items()}
    return shares | {"lost": shares["t"] - shares["shown"]}


def shows(steps: Sequence[int], trials: int) -> bool:
    """Whether tasks whose differences are so many trials show one on tasks like these."""
    found = _ask_steps(steps, trials)
    return found is not None and found.p < 0.05


def span_of(steps: Sequence[int], trials: int) -> Span:
    """The interval that they give; there have to be enough of them."""
    found = _ask_steps(steps, trials)
    if found is None:
        raise ValueError(f"{len(steps)} tasks give no interval")
    return found.interval


def _ask_steps(steps: Sequence[int], trials: int) -> Answer | None:
    left, right = [max(0, -each) for each in steps], [max(0, each) for each in steps]
    return ask_others(score_pairs(left, right, trials, [None] * len(steps)), RATE)


def _cells(left: Sequence[int], right: Sequence[int], trials: int) -> list[tuple[Cell, Cell]]:
    return [
        (Cell(graded=trials, passed=x, total=x), Cell(graded=trials, passed=y, total=y))
        for x, y in zip(left, right, strict=True)
    ]


def score_pairs(
    left: Sequence[int], right: Sequence[int], trials: int, groups: Sequence[str | None]
) -> list[tuple[PairedTask, float]]:
    """Tasks of which so many trials passed on each side, with their differences."""
    return [
        (PairedTask(task_id=str(n), group=group, baseline=x, other=y), (y.passed - x.passed) / trials)
        for n, ((x, y), group) in enumerate(zip(_cells(left, right, trials), groups, strict=True))
    ]


def _plain_cr2(values: Sequence[float], groups: Sequence[str | None]) -> tuple[float, float]:
    """The textbook's interval: CR2 with Bell and McCaffrey's degrees of freedom for independent tasks."""
    found = cluster(values, groups)
    if found is None:
        return math.nan, math.nan
    sizes = list(Counter(str(n) if group is None else group for n, group in enumerate(groups)).values())
    half = float(special.stdtrit(bell_mccaffrey(sizes, 0.0), 0.975)) * found.standard_error
    return found.mean - half, found.mean + half


def plain_t(values: Sequence[float]) -> float:
    """The textbook's p; where all are equal, as certain as one can be."""
    n, mean = len(values), sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    if squares < 1e-12:
        return 1.0 if abs(mean) < 1e-12 else 2.0 ** (1 - n)
    return float(2 * special.stdtr(n - 1, -abs(mean) / math.sqrt(squares / (n * (n - 1)))))


def _names(sizes: Sequence[int]) -> list[str | None]:
    return [f"g{number}" for number, size in enumerate(sizes) for _ in range(size)]


def _retry_rates(tasks: int, clustering: float, chance: np.random.Generator) -> Numbers:
    """A tenth of the trials errs: at random, or the more on some tasks the more clustered."""
    if not clustering:
        return np.full(tasks, 0.1)
    return chance.beta(0.1 * (1 / clustering - 1), 0.9 * (1 / clustering - 1), tasks)


def _retried(rates: Numbers, passing: Numbers, trials: int, chance: np.random.Generator) -> VariantTally:
    retried = chance.binomial(trials, rates)
    first, again = chance.binomial(trials - retried, passing), chance.binomial(retried, passing)
    tally = VariantTally(
        metrics={"pass"}, retried=int(retried.sum()), attempts=int(trials * len(rates) + retried.sum())
    )
    for n, (count, one, two) in enumerate(zip(retried.tolist(), first.tolist(), again.tolist(), strict=True)):
        tally.cells[str(n)] = Cell(
            graded=trials,
            passed=one + two,
            total=one + two,
            retried_graded=count,
            retried_passed=two,
            retried_total=two,
        )
    return tally


def _clocked(
    order: str, tasks: int, trials: int, giving_up: float, hit: float, chance: np.random.Generator
) -> Expense:
    """A run of one variant, one trial after another: times are lognormal, some tasks are given up at once."""
    lost = chance.random(tasks) < giving_up
    slots = [(task, repl) for task in range(tasks) for repl in range(trials)]
    slots = sorted(slots, key=lambda slot: (slot[1], slot[0])) if order == "balanced" else slots
    begin = int(chance.integers(0, max(1, round(len(slots) * (1 - hit)) + 1)))
    struck = range(begin, begin + round(len(slots) * hit))
    expense, clock = Expense(), 0.0
    solved = chance.beta(0.7, 0.7, tasks)
    for number, (task, repl) in enumerate(slots):
        is_short = number in struck or lost[task]
        seconds = float(chance.uniform(0.2, 0.8)) if is_short else float(np.exp(chance.normal(3.5, 0.8)))
        passed = not is_short and bool(chance.random() < solved[task])
        clock += seconds
        expense.add(_trial(task, repl, passed=passed), _times(clock, seconds))
        clock += 1.0
    return expense


def _trial(task: int, repl: int, *, passed: bool) -> TrialGlance:
    return TrialGlance(
        schedule_idx=0,
        ids=GlanceIds(trial_id=f"{task}.{repl}", variant_id="a", task_id=f"t{task}", repl_idx=repl),
        outcome="graded",
        verdict="pass" if passed else "fail",
        primary_metric_name="pass",
        primary_metric_value=float(passed),
        cause=None,
        ended_by=None,
        flags=(),
        barrier="",
        attempts=(AttemptGlance(attempt=1),),
    )


def _times(clock: float, seconds: float) -> TimingGlance:
    at = (_START + timedelta(seconds=clock)).isoformat(timespec="milliseconds")
    return TimingGlance(schedule_idx=0, attempts=(AttemptTimes(ended_at=at, phases_s={"agent": seconds}),))
