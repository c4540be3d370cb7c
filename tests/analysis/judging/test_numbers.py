import pytest

from labrunner.analysis.judging.numbers import write_change, write_number


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.250"), (0.0003, "0.0003"), (-0.00012, "-0.00012"), (99.9, "99.900"), (366.6512, "366.65")],
)
def test_a_figure_that_is_not_zero_is_not_written_as_zero(value: float, text: str) -> None:
    assert write_number(value) == text


@pytest.mark.parametrize("nothing", [0.0, -0.0, 1e-17, -1e-17])
def test_zero_is_never_less_than_zero(nothing: float) -> None:
    assert (write_number(nothing), write_change(nothing)) == ("0.000", "+0.000")


@pytest.mark.parametrize(
    ("value", "text"), [(0.25, "+0.250"), (-0.25, "-0.250"), (0.0001, "+0.0001"), (110.556, "+110.56")]
)
def test_a_change_has_a_sign(value: float, text: str) -> None:
    assert write_change(value) == text
