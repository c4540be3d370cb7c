"""What is simulated beside single means and pairs: these tasks run again, and several comparisons at once."""

import numpy as np

from bench.simulation.populations import draw_rates
from bench.simulation.studies import Figures, chance_of
from labrunner.analysis.comparing.comparison import adjust_family
from labrunner.analysis.comparing.pairing import PairedTask
from labrunner.analysis.comparing.questions import ask_others
from labrunner.analysis.inference.interval import TaskMean
from labrunner.analysis.inference.rerun import rerun_interval
from labrunner.analysis.sums.measure import Measure
from labrunner.analysis.sums.tally import Cell

TASKS = 12
"""Of every comparison of a family."""
SIZES = (1.5, 3.0, 9.0)
"""True differences, in standard errors: what luck hides often, now and then, never."""
ALPHA = 0.05
_SCORE = Measure(name="score", is_rate=False)


def cover_rerun(tasks: int, trials: int, kind: str, rate: float, runs: int) -> Figures:
    """How often the interval of a rate on these tasks holds what these very tasks would give."""
    chance = chance_of("rerun", tasks, trials, kind, rate)
    rates = draw_rates(kind, rate, (runs, tasks), chance)
    passes = chance.binomial(trials, rates)
    held = 0
    for row, truth in zip(passes.tolist(), rates.mean(axis=1).tolist(), strict=True):
        found = rerun_interval([TaskMean(mean=each / trials, graded=trials) for each in row], is_rate=True)
        held += found is not None and found.low <= truth <= found.high
    return {"coverage": held / runs}


def cover_rerun_scores(tasks: int, trials: int, unlike: float, runs: int) -> Figures:
    """The same of other scores, whose tasks scatter unlike each other."""
    chance = chance_of("rerun scores", tasks, trials, unlike)
    scatter = np.exp(unlike * chance.standard_normal((runs, tasks, 1)))
    scores = scatter * chance.standard_normal((runs, tasks, trials))
    means = scores.mean(axis=2)
    spreads = ((scores - means[:, :, None]) ** 2).sum(axis=2)
    held = 0
    for row, spread in zip(means.tolist(), spreads.tolist(), strict=True):
        told = [TaskMean(mean=m, graded=trials, spread=s) for m, s in zip(row, spread, strict=True)]
        found = rerun_interval(told, is_rate=False)
        held += found is not None and found.low <= 0.0 <= found.high
    return {"coverage": held / runs}


def hold_family(comparisons: int, alike: int, runs: int) -> Figures:
    """How often all intervals of a family hold, and how often any conclusion of it misleads."""
    chance = chance_of("family", comparisons, alike)
    held = misled = 0
    for _ in range(runs):
        sizes = chance.choice(SIZES, comparisons - alike)
        truths = [*[0.0] * alike, *(float(size) / TASKS**0.5 for size in sizes)]
        scores = chance.standard_normal((comparisons, TASKS)) + np.array(truths)[:, None]
        answers = [ask_others([(_task(n), d) for n, d in enumerate(row)], _SCORE) for row in scores.tolist()]
        told = [each for each in adjust_family(answers, [None] * comparisons) if each is not None]
        held += all(
            each.interval.low <= truth <= each.interval.high for each, truth in zip(told, truths, strict=True)
        )
        misled += any(
            each.p_adjusted < ALPHA and each.difference * truth <= 0
            for each, truth in zip(told, truths, strict=True)
        )
    return {"held": held / runs, "misled": misled / runs}


def _task(number: int) -> PairedTask:
    cell = Cell(graded=1)
    return PairedTask(task_id=str(number), group=None, baseline=cell, other=cell)
