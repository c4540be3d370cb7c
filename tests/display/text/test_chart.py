import pytest

from labrunner.display.text.chart import ASCII, UNICODE, Dot, DotChart, draw, fit_scale
from tests.kit.display.printing import to_text

DOTS = [Dot(label="short", value=0.5, low=0.25, high=0.75), Dot(label="a longer name", value=1.0)]


def test_dots_intervals_and_the_axis_stand_at_their_places() -> None:
    chart = DotChart(dots=[Dot(label="v", value=0.5, low=0.25, high=1.0)], low=0.0, high=1.0)
    assert draw(chart, 44, ASCII) == [
        "v            |---------o-------------------|",
        "   0                  0.5                  1",
    ]


def test_it_is_drawn_in_ascii_where_the_terminal_knows_no_more() -> None:
    chart = DotChart(dots=DOTS, low=0.0, high=1.0)
    for line in draw(chart, 60, ASCII):
        assert line.isascii()
    assert "├" in "".join(draw(chart, 60, UNICODE))


@pytest.mark.parametrize("width", [30, 40, 80, 200])
def test_no_line_is_wider_than_it_may_be(width: int) -> None:
    chart = DotChart(dots=[*DOTS, Dot(label="x" * 90, value=0.1)], low=0.0, high=1.0)
    lines = to_text(chart, width).splitlines()
    assert max(map(len, lines), default=0) <= min(width, 100)


def test_too_little_room_draws_nothing_rather_than_nonsense() -> None:
    assert to_text(DotChart(dots=DOTS, low=0.0, high=1.0), 20).strip() == ""


def test_a_mark_runs_through_every_line() -> None:
    chart = DotChart(
        dots=[Dot(label="a", value=0.5), Dot(label="b", value=-0.5)], low=-1.0, high=1.0, mark=0.0
    )
    first, second, _ = draw(chart, 44, ASCII)
    assert first.index(":") == second.index(":") == 23


def test_rates_are_drawn_from_0_to_1_and_other_figures_over_what_they_span() -> None:
    assert fit_scale(DOTS, within=(0.0, 1.0)) == (0.0, 1.0)
    low, high = fit_scale([Dot(label="s", value=120.0, low=100.0, high=140.0)], within=(0.0, 1.0))
    assert (low, high) == (98.0, 142.0)
    low, high = fit_scale([Dot(label="s", value=0.0)])
    assert low < 0.0 < high


def test_a_label_can_not_move_the_cursor() -> None:
    chart = DotChart(dots=[Dot(label="\x1b[2Jx", value=0.5)], low=0.0, high=1.0)
    assert "\x1b" not in to_text(chart)


def test_a_long_label_is_folded_and_never_cut() -> None:
    label = "model=a-very-long-name,effort=high,prompt=two"
    chart = DotChart(dots=[Dot(label=label, value=0.5)], low=0.0, high=1.0)
    drawn = draw(chart, 80, ASCII)
    assert "".join(line.split("  ")[0].strip() for line in drawn[:-1]) == label
    assert "..." not in "".join(drawn)
