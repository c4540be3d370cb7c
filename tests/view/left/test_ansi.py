"""Styles of text that a sandbox wrote."""

from labrunner.view.left.ansi import MOST_PIECES, style


def test_colours_and_weight_become_names_and_end_where_they_are_reset() -> None:
    told = style("a\x1b[1;31mb\x1b[39mc\x1b[22md\x1b[0me\x1b[92mf")
    assert told == [("", "a"), ("b c1", "b"), ("b", "c"), ("", "de"), ("c2", "f")]


def test_long_colours_are_taken_with_their_words_and_shown_where_pages_have_them() -> None:
    assert style("\x1b[38;5;2mgreen\x1b[0m\x1b[38;2;1;31;1mplain") == [("c2", "green"), ("", "plain")]


def test_every_other_sequence_stands_there_as_an_escape() -> None:
    ((name, text),) = style("\x1b[2J\x1b]0;title\x07\u202e\x00")
    assert (name, text) == ("", "\\x1b[2J\\x1b]0;title\\x07\\u202e\\x00")


def test_a_text_of_changing_styles_does_not_grow_without_end() -> None:
    told = style("".join(f"\x1b[3{number % 7 + 1}mx" for number in range(3 * MOST_PIECES)))
    assert len(told) == MOST_PIECES
    assert sum(len(text) for _, text in told) == 3 * MOST_PIECES


def test_what_is_written_is_whole_whatever_stands_between() -> None:
    assert style("\x1b[" + "1;" * 5_000 + "1mx") == [("b", "x")]
    assert style("") == []
