import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from labrunner.analysis.comparing.comparison import compare_all
from labrunner.analysis.comparing.family import join_family
from labrunner.analysis.comparing.pairing import Arm
from labrunner.analysis.describing.figures import Figures, compute_all
from labrunner.analysis.judging.conditions import LikenessCondition, OrderCondition, parse_condition
from labrunner.analysis.judging.requirements import (
    find_notes,
    find_unmet,
    parse_requirements,
    refuse_impossible,
)
from labrunner.analysis.judging.retryshift import CAUTION, RetryShift, report_retries
from labrunner.analysis.report import make_arms
from labrunner.analysis.sums.tally import Tally
from labrunner.errors import InputError
from labrunner.experiment.resolved import DeclaredMetric, Population
from tests.kit.analysis.arms import make_arm
from tests.kit.analysis.trial_rows import failed, graded

PLANNED = {"baseline": 10, "treatment": 10}


def make_tally(*, errors: int = 0) -> Tally:
    tally = Tally({f"t{n}": None for n in range(10)})
    for n in range(10):
        tally.add(graded("baseline", f"t{n}", value=float(n < 2)))
        is_lost = n >= 10 - errors
        tally.add(failed("treatment", f"t{n}") if is_lost else graded("treatment", f"t{n}", value=1.0))
    return tally


def gate(arms: Sequence[Arm], *texts: str) -> tuple[str, ...]:
    """What these arms do not meet; each of the others is shown against the first."""
    required = parse_requirements(texts)
    family = join_family([(arms[0], other) for other in arms[1:]], arms, required.pairs)
    figures = [blank_figures(arm.name) for arm in arms]
    return find_unmet(required, figures, None, compare_all(family))


def blank_figures(name: str) -> Figures:
    (found,) = compute_all(Tally({"t0": None}), {name: 1})
    return found


def unmet(*texts: str, errors: int = 0, coverage: float | None = None) -> tuple[str, ...]:
    tally = make_tally(errors=errors)
    arms = make_arms(tally, PLANNED)
    return find_unmet(
        parse_requirements(texts, coverage=coverage),
        compute_all(tally, PLANNED),
        None,
        compare_all([(arms[0], arms[1])]),
    )


def test_a_shown_difference_meets_its_condition_and_its_opposite_does_not() -> None:
    assert unmet("treatment > baseline", "baseline < treatment", "treatment >= baseline") == ()
    difference = "treatment minus baseline in mean `solved`: +0.800 (95% interval 0.306 to 1.000)"
    told = f"it is worse than that: {difference}"
    assert unmet("baseline > treatment") == (f"baseline > treatment: {told}",)
    assert unmet("baseline >= treatment") == (f"baseline >= treatment: {told}",)


def test_a_difference_that_errors_could_undo_is_not_met() -> None:
    (told,) = unmet("treatment > baseline", errors=6)
    assert told.startswith("treatment > baseline: undecided because of errors")


def test_a_figure_is_asked_of_every_variant_or_of_one() -> None:
    assert unmet("treatment.pass >= 0.9", "baseline.pass < 0.5", "pass >= 20%") == ()
    assert unmet("pass >= 0.9") == ("pass >= 0.9: baseline's pass is 0.2",)


def test_a_figure_that_equals_its_limit_but_for_rounding_is_met() -> None:
    tally = Tally({f"t{n}": None for n in range(6)})
    for n, passed in enumerate((3, 4, 4, 3, 5, 5)):
        for repl_idx in range(5):
            tally.add(graded("a", f"t{n}", repl_idx, value=float(repl_idx < passed)))
    figures = compute_all(tally, {"a": 30})
    assert figures[0].pass_rate != 24 / 30  # sums in binary
    assert find_unmet(parse_requirements(["pass >= 0.8", "pass <= 80%"]), figures, None, ()) == ()
    assert len(find_unmet(parse_requirements(["pass > 0.8", "pass < 0.8"]), figures, None, ())) == 2
    assert len(find_unmet(parse_requirements(["pass >= 0.8000001"]), figures, None, ())) == 1


def test_a_figure_that_is_not_known_is_not_met() -> None:
    tally = Tally({"t0": None})
    found = find_unmet(parse_requirements(["pass >= 0.1"]), compute_all(tally, {"a": 1}), None, ())
    assert found == ("pass >= 0.1: a's pass is not known",)
    tally.add(graded("a", "t0", value=1.0))
    figures = compute_all(tally, {"a": 1})
    for text in ("pass >= 0.1 surely", "mean >= 0.1 surely", "low >= 0.1"):
        (told,) = find_unmet(parse_requirements([text]), figures, None, ())
        assert "is not known: 1 task is too few to speak of others, it takes 6" in told


def test_coverage_is_asked_of_every_variant() -> None:
    assert unmet(coverage=1.0) == ()
    assert unmet(coverage=0.95, errors=2) == ("--require-coverage 0.95: treatment has 8 of 10 graded",)


def test_stability_is_not_met_by_a_bad_verdict_only() -> None:
    def check(shift: RetryShift | None) -> tuple[str, ...]:
        required = parse_requirements([], is_stable=True)
        return find_unmet(required, compute_all(make_tally(), PLANNED), shift, ())

    bad = RetryShift(
        variants=(), margin=0.02, answer="not bounded", notes=(), verdict="not bounded: x", caution=CAUTION
    )
    assert check(bad) == ("--require-stable: not bounded: x",)
    assert check(replace(bad, answer="can't tell")) != ()
    assert check(replace(bad, answer="bounded")) == check(None) == ()


def test_variants_called_like_settings_can_be_named() -> None:
    found = parse_condition("model=a,effort=low > model=b,effort=high")
    assert (found.text, getattr(found, "better"), getattr(found, "worse")) == (  # noqa: B009 - one of three
        "model=a,effort=low > model=b,effort=high",
        "model=a,effort=low",
        "model=b,effort=high",
    )
    dotted = parse_condition("gpt-4.1.pass >= 90%")
    assert (getattr(dotted, "variant_id"), getattr(dotted, "limit")) == ("gpt-4.1", 0.9)  # noqa: B009


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", 'expected something like "treatment > baseline"'),
        ("pass", 'expected something like "treatment > baseline"'),
        ("speed >= 3", "there is no figure 'speed'; there are: pass, mean, lower"),
        ("> 3", 'expected something like "treatment > baseline"'),
    ],
)
def test_what_is_no_condition_is_refused(text: str, told: str) -> None:
    with pytest.raises(InputError, match="--require") as caught:
        parse_condition(text)
    assert told in str(caught.value)


def test_a_variant_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InputError, match="no variant 'tretment'; there are: baseline, treatment"):
        unmet("tretment > baseline")


def test_a_figure_beside_what_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="'pass > banana': pass is a figure; expected a number beside it"):
        unmet("pass > banana")
    with pytest.raises(InputError, match="mean is a figure"):
        unmet("mean >= nan")


def test_a_coverage_that_can_not_be_is_refused() -> None:
    with pytest.raises(InputError, match="a share above 0 and up to 1, found 95"):
        parse_requirements([], coverage=95)


def rates(name: str, passes: Sequence[int], *, trials: int = 5, **more: object) -> Arm:
    scores = {f"t{n}": [1.0] * count + [0.0] * (trials - count) for n, count in enumerate(passes)}
    return make_arm(name, dict(scores), **more)  # type: ignore[arg-type] # what make_arm takes


def test_a_gate_does_not_pass_a_collapse_on_five_tasks() -> None:
    arms = [rates("baseline", [3] * 5, trials=3), rates("treatment", [1, 0, 0, 0, 0], trials=3)]
    (told,) = gate(arms, "treatment >= baseline")
    assert told == (
        "treatment >= baseline: not enough data: 5 tasks are too few to speak of others, it takes 6 "
        "(`population: these_tasks` asks about these only)"
    )
    fixed = [replace(arm, population="these_tasks") for arm in arms]
    (told,) = gate(fixed, "treatment >= baseline")
    assert told.startswith(
        "treatment >= baseline: it is worse than that: treatment minus baseline in mean `solved`: -0.933"
    )


def test_the_same_question_has_the_same_answer_whichever_way_it_is_written() -> None:
    arms = [
        rates("a", [1] * 8),
        rates("b", [4, 2, 1, 3, 4, 1, 3, 1]),
        rates("c", [1] * 8),
        rates("d", [1, 1, 2, 0, 1, 1, 1, 1]),
    ]
    assert bool(gate(arms, "b > a")) == bool(gate(arms, "a < b"))
    assert bool(gate(arms, "b > c")) == bool(gate(arms, "c < b"))
    assert bool(gate(arms, "b >= c - 0.1")) == bool(gate(arms, "c <= b + 0.1"))
    # Alone it would be shown; among three comparisons it is not.
    assert gate(arms[:2], "b > a") == ()
    (told,) = gate(arms, "b > a")
    assert "3 comparisons" in told


def test_a_further_pair_joins_the_family_once() -> None:
    arms = [rates(name, passes) for name, passes in (("a", [1] * 8), ("b", [4] * 8), ("c", [2] * 8))]
    shown = [(arms[0], other) for other in arms[1:]]
    family = join_family(shown, arms, [("b", "c"), ("c", "b"), ("a", "b")])
    assert [(baseline.name, other.name) for baseline, other in family] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert join_family(shown, arms, [("b", "a")]) == shown


def test_no_worse_than_a_margin_goes_by_the_end_of_the_interval() -> None:
    even = [2, 3, 2, 3, 2, 3, 2, 3, 3, 2, 3, 2]
    arms = [rates("a", even), rates("b", [*even[:-1], 3])]
    assert gate(arms, "b >= a - 0.1", "a >= b - 10%") == ()
    (told,) = gate(arms, "b >= a")
    assert told.startswith("b >= a: not shown: b minus a in mean `solved`: +0.017 (95% interval -0.0")
    (turned,) = gate(arms, "a >= b")
    assert turned.removeprefix("a >= b") == told.removeprefix("b >= a")


def test_alike_within_a_margin_takes_two_one_sided_tests() -> None:
    even = [2, 3, 2, 3, 2, 3, 2, 3, 3, 2, 3, 2]
    arms = [rates("a", even), rates("b", [*even[:-1], 3])]
    assert gate(arms, "a ~ b within 0.06", "b ~ a within 0.06") == ()
    assert "95% interval" in gate(arms, "a ~ b within 0.02")[0]


@pytest.mark.parametrize("margin", [0.02, 0.04, 0.05, 0.053, 0.06, 0.1])
def test_alike_is_no_worse_from_either_side(margin: float) -> None:
    even = [2, 3, 2, 3, 2, 3, 2, 3, 3, 2, 3, 2]
    arms = [rates("a", even), rates("b", [*even[:-1], 3])]
    alike = gate(arms, f"a ~ b within {margin}")
    assert bool(alike) == bool(gate(arms, f"a >= b - {margin}", f"b >= a - {margin}"))


def test_better_by_more_than_a_margin_can_be_asked_for() -> None:
    arms = [rates("a", [0] * 20), rates("b", [4, 5] * 10)]
    assert gate(arms, "b > a + 0.5", "b better than a by 50%") == ()
    assert gate(arms, "b > a + 0.95") != ()
    # That ten tasks all favour one side leaves open that three in ten others favour the other.
    few = [rates("a", [0] * 10), rates("b", [4, 5] * 5)]
    assert gate(few, "b > a + 0.3") == ()
    assert gate(few, "b > a + 0.5") != ()


def test_better_means_less_where_less_is_better() -> None:
    seconds = DeclaredMetric(name="seconds", better="lower")
    slow = make_arm("slow", {f"t{n}": [9.0 + n] for n in range(8)}, metric="seconds", declared=seconds)
    fast = make_arm("fast", {f"t{n}": [5.0 + n / 2] for n in range(8)}, metric="seconds", declared=seconds)
    assert gate([slow, fast], "fast > slow", "fast better than slow", "fast better than slow by 2") == ()
    assert gate([slow, fast], "fast no worse than slow by 1", "slow no worse than fast by 15") == ()
    assert (
        len(gate([slow, fast], "slow > fast", "slow better than fast", "slow no worse than fast by 2")) == 3
    )
    (told,) = gate([slow, fast], "fast better than slow by 9")
    assert "it is worse than that: fast minus slow in mean `seconds`, lower is better: -5.750" in told


@pytest.mark.parametrize("text", ["fast < slow", "slow < fast", "fast <= slow - 1", "fast <= slow"])
def test_less_may_be_worse_where_less_is_better(text: str) -> None:
    seconds = DeclaredMetric(name="seconds", better="lower")
    for check in (
        lambda: gate(seconds_of("slow", "fast", scale=seconds), text),
        lambda: refuse_impossible(parse_requirements([text]), seconds, planned=8),
    ):
        with pytest.raises(InputError, match="less of `seconds` is better, so `<` may mean less or worse"):
            check()
    refuse_impossible(parse_requirements([text]), DeclaredMetric(name="points"), planned=8)


@pytest.mark.parametrize("text", ["fast >= slow + 2", "fast > slow + 2", "fast >= slow - 2"])
def test_a_margin_may_be_more_where_less_is_better_so_it_is_asked_for_in_words(text: str) -> None:
    seconds = DeclaredMetric(name="seconds", better="lower")
    for check in (
        lambda: gate(seconds_of("slow", "fast", scale=seconds), text),
        lambda: refuse_impossible(parse_requirements([text]), seconds, planned=8),
    ):
        with pytest.raises(InputError, match="a margin of 2 may mean that much more, or that much") as caught:
            check()
        assert '"fast better than slow by 2" or "fast no worse than slow by 2"' in str(caught.value)


def test_words_for_an_order_are_read_whole() -> None:
    for text in ("b no worse than a", "b better than a by", "b better than a by much", "b better a"):
        with pytest.raises(InputError, match="--require"):
            parse_condition(text)


def test_errors_leave_a_margin_open_until_the_worst_of_them_holds_it() -> None:
    before = {f"t{n}": [1.0, 1.0] for n in range(20)}
    after = {f"t{n}": [1.0, 1.0] for n in range(19)} | {"t19": [None, None]}
    arms = [make_arm("a", dict(before)), make_arm("b", dict(after))]
    assert gate(arms, "b >= a - 0.3") == ()
    (told,) = gate(arms, "b >= a - 0.1")
    assert "however errored trials had ended" in told


def test_surely_asks_for_the_end_of_the_interval() -> None:
    assert unmet("treatment.pass >= 0.9", "treatment.mean >= 0.9") == ()
    (told,) = unmet("treatment.pass >= 0.9 surely")
    assert told == "treatment.pass >= 0.9 surely: the lower end of treatment's pass is 0.6615"
    assert unmet("baseline.pass <= 0.7 surely", "treatment.pass >= 60% surely") == ()
    with pytest.raises(InputError, match="only pass and mean can be asked for surely"):
        parse_condition("coverage >= 0.9 surely")


def test_surely_must_hold_however_errored_trials_had_ended() -> None:
    assert unmet("treatment.pass >= 0.5 surely") == ()
    (told,) = unmet("treatment.pass >= 0.5 surely", errors=3)
    assert told == (
        "treatment.pass >= 0.5 surely: the lower end of treatment's pass is 0.3434, however trials without a "
        "grade had ended"
    )
    assert unmet("treatment.pass >= 0.5", errors=3) == ()


def test_five_tasks_are_sure_of_nothing_but_themselves() -> None:
    tally = Tally({f"t{n}": None for n in range(5)})
    for n in range(5):
        for repl_idx in range(4):
            tally.add(graded("a", f"t{n}", repl_idx, value=1.0))

    def check(text: str, population: Population) -> tuple[str, ...]:
        figures = compute_all(tally, {"a": 20}, population=population)
        return find_unmet(parse_requirements([text]), figures, None, ())

    for text in ("pass >= 0.2 surely", "mean >= 0.2 surely", "a.low >= 0.2"):
        (told,) = check(text, "tasks_like_these")
        assert told.endswith(
            "is not known: 5 tasks are too few to speak of others, it takes 6 (`population: these_tasks` "
            "asks about these only)"
        )
        assert check(text, "these_tasks") == ()
    assert check("pass >= 0.2", "tasks_like_these") == ()


def seconds_of(*names: str, scale: DeclaredMetric) -> list[Arm]:
    return [
        make_arm(name, {f"t{n}": [3.0 + n + place] for n in range(8)}, metric="seconds", declared=scale)
        for place, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "b >= a - 5",
            "differences of `solved` are at most 1, so a margin of 5 decides nothing; expected one below 1, "
            "such as 0.05",
        ),
        ("b >= a - 100%", "a margin of 1 decides nothing"),
        ("b > a + 1", "a margin of 1 decides nothing"),
        ("a ~ b within 5", "a margin of 5 decides nothing"),
        ("a ~ b within 0", "no data show that two variants are exactly alike; expected a margin above 0"),
    ],
)
def test_a_margin_that_the_scale_has_no_room_for_is_refused(text: str, told: str) -> None:
    arms = [rates("a", [1] * 8), rates("b", [2] * 8)]
    with pytest.raises(InputError, match="--require") as caught:
        gate(arms, text)
    assert f"{text!r}: " in str(caught.value)
    assert told in str(caught.value)


def test_a_percentage_is_refused_where_the_scale_is_not_0_to_1() -> None:
    open_ended = seconds_of("a", "b", scale=DeclaredMetric(name="seconds", better="lower", min=0.0))
    with pytest.raises(InputError, match="'b >= a - 5%': a percentage fits differences on a scale of 0 to 1"):
        gate(open_ended, "b >= a - 5%")
    assert gate(open_ended, "b no worse than a by 5") == ()
    bounded = seconds_of("a", "b", scale=DeclaredMetric(name="seconds", better="lower", min=0.0, max=60.0))
    with pytest.raises(InputError, match=r"`seconds` spans 60; expected a margin in units .* such as 3"):
        gate(bounded, "a ~ b within 5%")
    with pytest.raises(InputError, match="differences of `seconds` are at most 60"):
        gate(bounded, "a ~ b within 61")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pass >= 90", "pass lies between 0 and 1, so 90 decides nothing; expected a limit in between"),
        ("coverage >= 95", "coverage lies between 0 and 1"),
        ("baseline.mean < 5", "mean lies between 0 and 1"),
        ("pass > 100%", "pass lies between 0 and 1, so this never holds; expected a limit in between"),
        ("pass < 0", "so this never holds"),
        ("pass >= 0", "pass lies between 0 and 1, so this always holds"),
        ("mean <= 1", "so this always holds"),
        ("coverage >= 0", "so this always holds"),
        ("pass >= 100% surely", "no number of trials makes its interval end there, so this never holds"),
        ("mean <= 0 surely", "no number of trials makes its interval end there"),
        ("low >= 1", "no number of trials makes its interval end there"),
        ("high <= 0", "no number of trials makes its interval end there"),
        ("errors <= 5%", "errors is a number of trials, not a share"),
        ("errors >= 0", "errors lies between 0 and 10, so this always holds; expected a limit in between"),
        ("retried > -1", "retried lies between 0 and 10, so -1 decides nothing"),
        ("errors < 0", "errors lies between 0 and 10, so this never holds"),
        ("errors <= 10", "so this always holds; expected a limit in between, such as 1"),
        ("errors <= 50", "so 50 decides nothing"),
    ],
)
def test_a_limit_that_a_figure_can_not_reach_is_refused(text: str, told: str) -> None:
    with pytest.raises(InputError, match="--require") as caught:
        unmet(text)
    assert told in str(caught.value)


def test_the_ends_of_a_scale_can_be_asked_for_where_they_can_be_reached() -> None:
    assert unmet("treatment.pass >= 100%", "coverage >= 1", "treatment.high >= 1", "baseline.pass > 0") == ()
    assert len(unmet("pass >= 1", "pass <= 0")) == 3


def test_what_a_declared_scale_has_no_room_for_is_refused_before_a_run() -> None:
    points = DeclaredMetric(name="points", min=0.0, max=20.0)
    for text in ("b >= a - 25", "b >= a - 5%", "mean >= 30", "mean >= 90%", "pass >= 2"):
        with pytest.raises(InputError, match="--require"):
            refuse_impossible(parse_requirements([text]), points, planned=8)
    known = parse_requirements(["b >= a - 5", "mean >= 15", "pass >= 90%", "errors <= 0", "errors < 8"])
    refuse_impossible(known, points, planned=8)
    refuse_impossible(parse_requirements(["b >= a - 5", "mean >= 15"]), None, planned=8)
    for text, told in (("pass >= 90", "pass lies between 0 and 1"), ("errors <= 9", "so 9 decides nothing")):
        with pytest.raises(InputError, match=told):
            refuse_impossible(parse_requirements([text]), None, planned=8)


def test_a_scale_with_one_end_has_no_room_beyond_it() -> None:
    seconds = DeclaredMetric(name="seconds", better="lower", min=0.0)
    for text in ("mean >= 0", "mean < 0", "mean > -1"):
        with pytest.raises(InputError, match="mean is never less than 0, so"):
            refuse_impossible(parse_requirements([text]), seconds, planned=8)
    refuse_impossible(parse_requirements(["mean <= 20"]), seconds, planned=8)


def test_a_scale_without_ends_has_room_for_every_limit() -> None:
    tally = Tally({f"t{n}": None for n in range(8)}, declared=frozenset({DeclaredMetric(name="seconds")}))
    for n in range(8):
        tally.add(graded("a", f"t{n}", value=3.0 + n, metric="seconds"))
    figures = compute_all(tally, {"a": 8})
    required = parse_requirements(["mean <= 20", "mean >= -5", "mean <= 20 surely"])
    refuse_impossible(required, DeclaredMetric(name="seconds"), planned=8)
    assert find_unmet(required, figures, None, ()) == ()


def test_variants_that_surely_differ_by_more_than_a_margin_are_told_so() -> None:
    arms = [rates("a", [0] * 20), rates("b", [4, 5] * 10)]
    (told,) = gate(arms, "a ~ b within 0.1")
    assert told.startswith(
        "a ~ b within 0.1: they differ by more than that: b minus a in mean `solved`: +0.9"
    )
    (told,) = gate([rates("a", [2, 3] * 10), rates("b", [3, 2] * 10)], "a ~ b within 0.01")
    assert told.startswith("a ~ b within 0.01: not shown: ")


def test_an_order_that_is_met_meets_every_weaker_one() -> None:
    chance = random.Random(5)
    texts = ("b > a + 0.1", "b > a", "b >= a", "b >= a - 0.001", "b >= a - 0.2")
    seen = set()
    for _ in range(60):
        lift = chance.choice((0, 1, 2, 3))
        passes = [[chance.randint(0, 5 - lift) for _ in range(9)] for _ in range(3)]
        lifted = [min(5, count + lift) for count in passes[1]]
        arms = [rates("a", passes[0]), rates("b", lifted), rates("c", [min(5, n + 2) for n in passes[2]])]
        met = [not gate(arms, text) for text in texts]
        seen.add(tuple(met))
        assert met == sorted(met), (met, passes)
        assert met[1] == met[2]
    assert len(seen) >= 3


def test_what_bends_figures_is_noted_beside_an_answer() -> None:
    marked = graded("treatment", "t0", value=0.0)
    tally = Tally({f"t{n}": None for n in range(10)}, {marked.ids.trial_id: "its answer was wrong"})
    tally.add(marked)
    for n in range(10):
        tally.add(graded("baseline", f"t{n}", value=float(n < 2)))
        if n:
            tally.add(graded("treatment", f"t{n}", value=1.0, attempts=1 + (n < 5)))
    figures, arms = compute_all(tally, PLANNED), make_arms(tally, PLANNED)
    shift = report_retries(list(zip(arms, figures, strict=True)))
    marks, retries, rate = find_notes(parse_requirements(["treatment > baseline"]), figures, shift)
    assert marks.startswith("treatment: 1 trial marked as not to be used")
    assert 'why: "its answer was wrong" (1)' in marks
    assert retries.startswith("retries not bounded: 4 of 19 trials needed a retry")
    assert rate.endswith("comparing them is suspect")
    assert find_notes(parse_requirements(["baseline.pass >= 0.1"]), figures, shift) == ()
    assert len(find_notes(parse_requirements(["pass >= 0.1"]), figures, shift)) == 4


def test_a_mean_that_leaves_trials_out_is_noted_beside_an_answer_that_goes_by_it() -> None:
    figures = compute_all(make_tally(errors=3), PLANNED)
    told = (
        "treatment: 7 of 10 planned trials are graded; with the others scored as the worst or the best its "
    )
    assert find_notes(parse_requirements(["pass >= 0.1"]), figures, None) == (
        f"{told}mean is 0.700 to 1.000",
    )
    for text in ("treatment.pass >= 0.1 surely", "baseline.pass >= 0.1", "treatment.lower >= 0.1"):
        assert find_notes(parse_requirements([text]), figures, None) == ()


def test_margins_are_read_from_either_side() -> None:
    left = parse_condition("gpt-4.1 >= gpt-4o - 5%")
    right = parse_condition("gpt-4o <= gpt-4.1 + 0.05")
    assert isinstance(left, OrderCondition)
    assert isinstance(right, OrderCondition)
    assert (
        (left.better, left.worse, left.by)
        == (right.better, right.worse, right.by)
        == ("gpt-4.1", "gpt-4o", -0.05)
    )
    alike = parse_condition("a-1 ~ b within 0.05")
    assert isinstance(alike, LikenessCondition)
    assert (alike.left, alike.right, alike.margin) == ("a-1", "b", 0.05)
    with pytest.raises(InputError, match=r"expected a margin like 0\.05 or 5%, found 'much'"):
        parse_condition("a ~ b within much")
    with pytest.raises(InputError, match="compares baseline with itself"):
        unmet("baseline > baseline")
