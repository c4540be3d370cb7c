from labrunner.display.text.blocks import show_rows
from labrunner.display.text.console import indent, make_table, name_once
from labrunner.display.text.folding import fold
from tests.kit.display.printing import to_text

COLUMNS = ("variant", "planned", "mean", "95% interval")
ROWS = [("treatment-with-memory", "1,200", "0.542", "0.406 to 0.678"), ("base", "7", "-", "undefined")]


def table(width: int) -> list[str]:
    made = make_table(COLUMNS, ROWS, numbers=("planned", "mean"), whole=("95% interval",))
    return to_text(made, width).splitlines()


def test_where_there_is_room_nothing_is_folded() -> None:
    assert table(80)[2:] == [
        "treatment-with-memory    1,200  0.542  0.406 to 0.678",
        "base                         7      -  undefined",
    ]


def test_a_long_name_gives_way_at_its_joints_before_any_figure_does() -> None:
    assert table(45)[2:] == [
        "treatment-       1,200  0.542  0.406 to 0.678",
        "with-memory",
        "base                 7      -  undefined",
    ]


def test_a_table_that_could_not_be_read_becomes_a_block_a_row() -> None:
    assert table(30) == [
        "treatment-with-memory",
        "  planned       1,200",
        "  mean          0.542",
        "  95% interval  0.406 to 0.678",
        "base",
        "  planned       7",
        "  mean          -",
        "  95% interval  undefined",
    ]


def test_an_indented_table_is_measured_by_the_room_that_it_has() -> None:
    made = make_table(COLUMNS, ROWS, numbers=("planned", "mean"), whole=("95% interval",))
    for width in (20, 30, 42, 43, 44, 46, 60):
        assert max(map(len, to_text(indent(made), width).splitlines())) <= width


def test_a_name_without_joints_is_cut_where_the_column_ends() -> None:
    assert list(fold("abcdefghij", 4)) == ["abcd", "efgh", "ij"]
    assert list(fold("repo-7/issue-028.baseline", 10)) == ["repo-7/", "issue-028.", "baseline"]
    assert list(fold("日本語-x", 4)) == ["日本", "語-x"]
    assert list(fold("", 4)) == [""]


def test_what_the_row_above_says_is_not_said_again() -> None:
    rows = [("a", "1"), ("a", "2"), ("b", "2"), ("a", "2")]
    assert name_once(rows) == [("a", "1"), ("", "2"), ("b", "2"), ("a", "2")]


def test_rows_of_many_columns_are_shown_one_below_the_other() -> None:
    columns = [f"column_{number}" for number in range(12)]
    told = to_text(show_rows(columns, ["VARCHAR"] * 12, [["x" * 30] * 12, ["\x1b[2J"] * 12]), 80)
    assert told.splitlines()[:2] == ["row 1", f"  column_0   {'x' * 30}"]
    assert told.splitlines()[13:15] == ["row 2", "  column_0   \\x1b[2J"]
    assert len(told.splitlines()) == 26


def test_rows_that_fit_are_a_table() -> None:
    told = to_text(show_rows(["task", "n"], ["VARCHAR", "BIGINT"], [["a", "1"], ["b", "22"]]), 80)
    assert told.splitlines() == ["task   n", "────────", "a      1", "b     22"]
