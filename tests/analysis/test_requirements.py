import pytest

from labrunner.analysis.comparison import Comparison, compare_all
from labrunner.analysis.figures import compute_all
from labrunner.analysis.report import make_arms
from labrunner.analysis.requirements import find_unmet, parse_condition, parse_requirements
from labrunner.analysis.retryshift import CAUTION, RetryShift
from labrunner.analysis.tally import Tally
from labrunner.errors import InputError
from tests.analysis.trial_rows import failed, graded

PLANNED = {"baseline": 10, "treatment": 10}


def make_tally(*, errors: int = 0) -> Tally:
    tally = Tally({f"t{n}": None for n in range(10)})
    for n in range(10):
        tally.add(graded("baseline", f"t{n}", value=float(n < 2)))
        is_lost = n >= 10 - errors
        tally.add(failed("treatment", f"t{n}") if is_lost else graded("treatment", f"t{n}", value=1.0))
    return tally


def never(baseline: str, other: str) -> Comparison:
    pytest.fail("nothing asked for a comparison")


def unmet(*texts: str, errors: int = 0, coverage: float | None = None) -> tuple[str, ...]:
    tally = make_tally(errors=errors)
    arms = {arm.name: arm for arm in make_arms(tally, PLANNED)}

    def compare(baseline: str, other: str) -> Comparison:
        return compare_all([(arms[baseline], arms[other])])[0]

    return find_unmet(
        parse_requirements(texts, coverage=coverage), compute_all(tally, PLANNED), None, compare
    )


def test_a_shown_difference_meets_its_condition_and_its_opposite_does_not() -> None:
    assert unmet("treatment > baseline", "baseline < treatment", "treatment >= baseline") == ()
    assert unmet("baseline > treatment") == ("baseline > treatment: worse (difference -0.800, p = 0.00781)",)
    assert unmet("baseline >= treatment") == (
        "baseline >= treatment: worse (difference -0.800, p = 0.00781)",
    )


def test_a_difference_that_errors_could_undo_is_not_met() -> None:
    (told,) = unmet("treatment > baseline", errors=6)
    assert told.startswith("treatment > baseline: undecided because of errors")


def test_a_figure_is_asked_of_every_variant_or_of_one() -> None:
    assert unmet("treatment.pass >= 0.9", "baseline.pass < 0.5", "pass >= 20%") == ()
    assert unmet("pass >= 0.9") == ("pass >= 0.9: baseline's pass is 0.2",)


def test_a_figure_that_is_not_known_is_not_met() -> None:
    tally = Tally({"t0": None})
    found = find_unmet(parse_requirements(["pass >= 0"]), compute_all(tally, {"a": 1}), None, never)
    assert found == ("pass >= 0: a's pass is not known",)


def test_coverage_is_asked_of_every_variant() -> None:
    assert unmet(coverage=1.0) == ()
    assert unmet(coverage=0.95, errors=2) == ("--require-coverage 0.95: treatment has 8 of 10 graded",)


def test_stability_is_not_met_by_a_bad_verdict_only() -> None:
    def check(shift: RetryShift | None) -> tuple[str, ...]:
        required = parse_requirements([], is_stable=True)
        return find_unmet(required, compute_all(make_tally(), PLANNED), shift, never)

    bad = RetryShift(variants=(), is_stable=False, reasons=("x",), verdict="not stable: x", caution=CAUTION)
    good = RetryShift(variants=(), is_stable=True, reasons=(), verdict="stable", caution=CAUTION)
    assert check(bad) == ("--require-stable: not stable: x",)
    assert check(good) == check(None) == ()


def test_variants_called_like_settings_can_be_named() -> None:
    found = parse_condition("model=a,effort=low > model=b,effort=high")
    assert (found.text, getattr(found, "left"), getattr(found, "right")) == (  # noqa: B009 - one of two types
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
