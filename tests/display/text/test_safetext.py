import pytest

from labrunner.display.text.safetext import LONGEST_LINE, sanitise, sanitise_line, take_tail


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\x00b\x7f", "a\\x00b\\x7f"),
        ("pass\u202elaf", "pass\\u202elaf"),
        ("in\u200bvisible", "in\\u200bvisible"),
        ("\ud800", "\\ud800"),
        ("tag\U000e0041", "tag\\U000e0041"),
    ],
)
def test_what_a_terminal_would_act_on_is_shown_as_an_escape(hostile: str, shown: str) -> None:
    assert sanitise(hostile) == shown


def test_ordinary_text_stays_as_it_is() -> None:
    text = "naïve café, 日本語, {'a': [1]} [bold]x[/bold] :smile:\nnext line"
    assert sanitise(text) == text


def test_a_carriage_return_can_not_overwrite_what_stands_before_it() -> None:
    assert sanitise("verdict: fail\rverdict: pass\r\n") == "verdict: fail\nverdict: pass\n"


def test_text_for_one_line_stays_on_one_line() -> None:
    assert sanitise_line("a\nb\tc") == "a\\nb    c"


def test_a_tail_says_how_much_was_left_out() -> None:
    log = "".join(f"line {number}\n" for number in range(50))
    assert take_tail(log, 2) == "(48 earlier lines)\nline 48\nline 49"
    assert take_tail("one\ntwo\n", 2) == "one\ntwo"


def test_a_very_long_line_is_clipped() -> None:
    assert take_tail("x" * (LONGEST_LINE + 7), 5) == "x" * LONGEST_LINE + " (7 more characters)"
