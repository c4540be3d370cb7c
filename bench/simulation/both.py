"""What is simulated of the two questions together, and of measured scores on these tasks."""

from typing import Final

from bench.simulation.populations import draw_pairs, draw_scores, improve
from bench.simulation.studies import RATE, Figures, chance_of, score_pairs
from labrunner.analysis.comparing.answer import Answer
from labrunner.analysis.comparing.questions import answer_by_luck, answer_here, ask_both, ask_others, fill
from labrunner.analysis.inference.luck import measure_luck
from labrunner.analysis.inference.permutation import Contrast
from labrunner.analysis.sums.measure import Measure

SCORE: Final = Measure(name="score", is_rate=False)


def judge_both(tasks: int, trials: int, kind: str, runs: int) -> Figures:
    """How often a difference is shown of these tasks, and of others, by both together; what it costs."""
    chance = chance_of("both", tasks, trials, kind)
    figures = {"odd": 0.0}
    for name, is_better in (("here", False), ("power", True)):
        before, after = draw_pairs(kind, (runs, tasks), chance)
        after = improve(after) if is_better else after
        a, b = chance.binomial(trials, before), chance.binomial(trials, after)
        shown = dict.fromkeys(("here", "others", "alone"), 0)
        for row in zip(a.tolist(), b.tolist(), strict=True):
            scored = score_pairs(*row, trials, [None] * tasks)
            here, others = ask_both([fill(task, RATE) for task, _ in scored], scored, RATE)
            alone = ask_others(scored, RATE)
            shown["here"] += here is not None and here.p < 0.05
            shown["others"] += others is not None and others.p < 0.05
            shown["alone"] += alone is not None and alone.p < 0.05
            figures["odd"] += here is not None and others is not None and others.p < 0.05 <= here.p
        figures[name] = shown["here" if name == "here" else "others"] / runs
        figures["cost"] = (shown["alone"] - shown["others"]) / runs
    return figures


def cover_scores(tasks: int, trials: int, kind: str, runs: int) -> Figures:
    """How often the interval of measured scores on these tasks holds the truth."""
    chance = chance_of("scores", tasks, trials, kind)
    held = told = 0
    for _ in range(runs):
        contrasts, truth = draw_scores(kind, tasks, trials, chance)
        found = _ask(contrasts)
        told += found is not None
        held += found is not None and found.interval.low <= truth <= found.interval.high
    return {"scores": held / told}


def _ask(contrasts: list[Contrast]) -> Answer | None:
    """What is answered on these tasks, without the permutation that is recorded beside it: it takes long."""
    luck = measure_luck(contrasts)
    if luck is None or luck.standard_error < 1e-9:
        return answer_here(contrasts, SCORE)
    difference = sum(each.difference for each in contrasts) / len(contrasts)
    return answer_by_luck(difference, luck, SCORE)
