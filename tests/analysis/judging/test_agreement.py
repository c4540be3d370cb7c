"""What is printed and what is judged, over runs of many kinds: no two answers may contradict each other."""

import random
from itertools import product

import pytest

from labrunner.analysis.comparing.comparison import Comparison, compare_all
from labrunner.analysis.comparing.family import join_family
from labrunner.analysis.comparing.pairing import Arm
from labrunner.analysis.describing.figures import Figures, compute_all
from labrunner.analysis.judging.requirements import find_unmet, parse_requirements
from labrunner.analysis.report import make_arms
from labrunner.analysis.sums.tally import Tally
from labrunner.experiment.resolved import DeclaredMetric, Population
from labrunner.records.rows import TrialRow
from tests.kit.analysis.trial_rows import failed, graded

NAMES = ("a", "b", "c")
POINTS = DeclaredMetric(name="points", better="lower", min=0.0, max=10.0)


class Drawn:
    """A run of three variants, drawn by chance."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.tasks = chance.choice((3, 5, 6, 9, 14))
        self.trials = chance.choice((1, 2, 4))
        self.is_rate = chance.random() < 0.5
        self.population: Population = chance.choice(("tasks_like_these", "these_tasks"))
        self.reach = 1.0 if self.is_rate else 10.0
        lift = {name: chance.choice((0.0, 0.1, 0.4)) for name in NAMES}
        errors, marks = chance.choice((0.0, 0.0, 0.1)), chance.choice((0.0, 0.0, 0.1))
        hard = [chance.random() * 0.6 for _ in range(self.tasks)]
        slots = product(NAMES, enumerate(hard), range(self.trials))
        self.rows = [
            failed(name, f"t{task}", repl_idx)
            if chance.random() < errors
            else self._grade(chance, name, task, repl_idx, level + lift[name])
            for name, (task, level), repl_idx in slots
        ]
        self.marked = {row.ids.trial_id: "x" for row in self.rows if chance.random() < marks}

    def _grade(self, chance: random.Random, name: str, task: int, repl_idx: int, level: float) -> TrialRow:
        if self.is_rate:
            return graded(name, f"t{task}", repl_idx, value=float(chance.random() < level))
        value = min(10.0, max(0.0, 10 * level + chance.gauss(0, 1)))
        return graded(name, f"t{task}", repl_idx, value=value, metric="points")

    def judge(self, *texts: str) -> tuple[tuple[str, ...], dict[frozenset[str], Comparison], list[Figures]]:
        tally = Tally(
            {f"t{n}": None for n in range(self.tasks)},
            self.marked,
            declared=frozenset({None if self.is_rate else POINTS}),
        )
        for row in self.rows:
            tally.add(row)
        planned = dict.fromkeys(NAMES, self.tasks * self.trials)
        figures = compute_all(tally, planned, population=self.population)
        arms: tuple[Arm, ...] = make_arms(tally, planned, population=self.population)
        required = parse_requirements(texts)
        family = compare_all(join_family([(arms[0], arms[1]), (arms[0], arms[2])], arms, required.pairs))
        compared = {frozenset((each.baseline, each.other)): each for each in family}
        return find_unmet(required, figures, None, family), compared, list(figures)


@pytest.mark.parametrize("seed", range(40))
def test_no_answer_contradicts_another(seed: int) -> None:
    run = Drawn(seed)
    margin = 0.15 * run.reach
    # Where less is better, `<` and margins beside signs are refused.
    turned = "b < c" if run.is_rate else "c better than b"
    gain = f"c > b + {margin}" if run.is_rate else f"c better than b by {margin}"
    losses = [
        f"{one} >= {another} - {margin}" if run.is_rate else f"{one} no worse than {another} by {margin}"
        for one, another in ("cb", "bc")
    ]
    texts = (gain, "c > b", "c >= b", *losses, f"b ~ c within {margin}", turned, "b > c")
    unmet, compared, figures = run.judge(*texts)
    met = {text: not any(each.startswith(f"{text}:") for each in unmet) for text in texts}

    assert len(compared) == 3
    assert {each.family for each in compared.values()} == {3}
    for found in compared.values():
        answer = found.answer
        if answer is not None:
            span = answer.interval
            assert (answer.p_adjusted < 0.05) == (not span.low <= 0.0 <= span.high)
            assert span.low <= answer.difference <= span.high
        if found.conclusion in {"better", "worse"}:
            assert answer is not None
            assert answer.p_adjusted < 0.05

    pair = compared[frozenset("bc")]
    shown = {"better": pair.other, "worse": pair.baseline}.get(pair.conclusion)
    assert met["c > b"] == met["c >= b"] == met[turned] == (shown == "c")
    assert met["b > c"] == (shown == "b")
    assert [met[text] for text in texts[:4]] == sorted(met[text] for text in texts[:4])
    assert met[f"b ~ c within {margin}"] == all(met[text] for text in losses)

    for each in figures:
        if each.lower is not None and each.observed is not None and each.upper is not None:
            assert each.lower <= each.observed + 1e-12
            assert each.observed <= each.upper + 1e-12
        if each.sure is not None and each.interval is not None:
            assert each.sure.low <= each.interval.low <= each.interval.high <= each.sure.high
    alone = run.judge("c > b")[1]
    assert {key: found.conclusion for key, found in alone.items()} == {
        key: found.conclusion for key, found in compared.items()
    }
