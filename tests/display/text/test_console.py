import io
import os
import subprocess
import sys

import pytest

from labrunner.display.text.console import FILE_WIDTH, make_console, make_fields, make_line, make_table


def test_a_stream_without_utf8_shows_escapes_instead_of_failing() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    make_console(stream).print(make_table(("name",), [("größer",)]), make_line("日本"))
    stream.flush()
    assert b"gr\\xf6\\xdfer" in raw.getvalue()
    assert b"\\u65e5\\u672c" in raw.getvalue()


def test_markup_and_emoji_codes_in_text_are_printed_as_they_are() -> None:
    stream = io.StringIO()
    make_console(stream).print("[red]x[/red] :smile:")
    assert stream.getvalue() == "[red]x[/red] :smile:\n"


def test_output_to_a_file_is_wide_enough_for_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert make_console(io.StringIO()).width == FILE_WIDTH
    monkeypatch.setenv("COLUMNS", "60")
    assert make_console(io.StringIO()).width == 60


def test_output_to_a_file_has_no_spaces_at_the_ends_of_lines() -> None:
    stream = io.StringIO()
    make_console(stream).print(make_fields([("a", "short"), ("b", "a good deal longer")]))
    assert stream.getvalue() == "a  short\nb  a good deal longer\n"


def test_no_color_is_respected_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31m" in shown_on_a_terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in shown_on_a_terminal()


def shown_on_a_terminal() -> str:
    master, slave = os.openpty()
    with open(slave, "w", encoding="utf-8") as stream:
        make_console(stream).print(make_line("bad", "red"))
        stream.flush()
        seen = b""
        while not seen.endswith(b"\n"):
            seen += os.read(master, 4_096)
    os.close(master)
    return seen.decode()


def test_progress_loads_nothing_heavy() -> None:
    code = "import sys, labrunner.display.progress\nsys.exit('loaded rich' if 'rich' in sys.modules else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
