import asyncio
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TextIO

import pytest

from labrunner.display.progress import Pace, Progress, Screen, follow, is_due, render

HALFWAY = Progress(
    planned=72, committed=30, buffered=6, running=4, passed=20, failed=15, errors=1, elapsed_s=12, eta_s=12
)
START = Progress(planned=72, committed=0, buffered=0, running=0, passed=0, failed=0, errors=0, elapsed_s=0)


class Pauses:
    """Lets the loop go round a number of times, then cancels it like the end of a run does."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        self.left -= 1
        if self.left == 0:
            raise asyncio.CancelledError


async def follow_states(states: list[Progress], screen: Screen) -> Pauses:
    """Follow as many states as there are; the last one is what the run ended with."""
    ahead = iter(states)
    last = states[-1]
    pauses = Pauses(len(states))
    with pytest.raises(asyncio.CancelledError):
        await follow(lambda: next(ahead, last), screen, pauses)
    return pauses


def test_the_line_tells_done_running_pass_rate_errors_and_times() -> None:
    assert render(HALFWAY) == "[########........]  36/72  4 running  57% pass  1 error  0:12, 0:12 left"


def test_nothing_is_said_about_what_is_not_known_yet() -> None:
    assert render(START) == "[................]  0/72  0 running  0:00"


def test_at_the_end_no_time_is_left() -> None:
    assert render(replace(HALFWAY, committed=72, buffered=0, running=0)).endswith("1 error  0:12")


@pytest.mark.parametrize("width", range(1, 120))
def test_the_line_never_exceeds_the_width(width: int) -> None:
    line = render(replace(HALFWAY, note="waiting for the provider"), width=width)
    assert 0 < len(line) <= width


def test_a_narrow_line_keeps_what_matters_most() -> None:
    assert render(HALFWAY, width=25) == "36/72  57% pass  1 error"


def test_a_note_can_not_move_the_cursor() -> None:
    assert "\x1b" not in render(replace(HALFWAY, note="\x1b[2J"))


def test_the_time_left_follows_this_sittings_pace() -> None:
    assert Pace(planned=100, done_before=50).estimate_left(done=60, elapsed_s=5.0) == 20.0
    assert Pace(planned=100, done_before=50).estimate_left(done=50, elapsed_s=5.0) is None
    assert Pace(planned=100, done_before=0).estimate_left(done=100, elapsed_s=5.0) == 0.0


def test_while_nothing_finishes_the_estimate_counts_down_and_does_not_grow() -> None:
    pace = Pace(planned=4, done_before=0)
    assert pace.estimate_left(done=1, elapsed_s=10.0) == 30.0
    assert pace.estimate_left(done=1, elapsed_s=20.0) == 20.0
    assert pace.estimate_left(done=1, elapsed_s=60.0) is None
    assert pace.estimate_left(done=2, elapsed_s=70.0) == 70.0


def test_plain_lines_come_every_tenth_or_every_ten_seconds() -> None:
    assert is_due(START, None)
    assert not is_due(replace(START, committed=7, elapsed_s=9.9), START)
    assert is_due(replace(START, committed=8), START)
    assert is_due(replace(START, elapsed_s=10.0), START)
    assert is_due(replace(START, note="stopping"), START)


async def test_without_a_terminal_plain_lines_are_printed_and_the_end_is_not_missed() -> None:
    stream = io.StringIO()
    states = [replace(START, committed=done) for done in (0, 3, 8, 9, 72)]
    await follow_states(states, Screen(stream=stream, is_live=False))
    lines = stream.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["0/72", "8/72", "72/72"]
    assert "\x1b" not in stream.getvalue()


async def test_a_run_that_ends_between_two_lines_still_gets_its_last_line() -> None:
    stream = io.StringIO()
    ahead = iter([START])
    with pytest.raises(asyncio.CancelledError):
        await follow(
            lambda: next(ahead, replace(START, committed=1)), Screen(stream=stream, is_live=False), Pauses(1)
        )
    assert stream.getvalue().splitlines()[-1].startswith("1/72")


@contextmanager
def terminal(encoding: str = "utf-8") -> Iterator[tuple[TextIO, int]]:
    """A pseudo-terminal: the stream that a program writes to, and the end that a person looks at."""
    master, slave = os.openpty()
    with open(slave, "w", encoding=encoding) as stream:
        try:
            yield stream, master
        finally:
            os.close(master)


def read_line(master: int) -> str:
    """Read up to the first line's end: the kernel hands a terminal's text over in pieces."""
    seen = b""
    while not seen.endswith(b"\n"):
        seen += os.read(master, 65_536)
    return seen.decode()


async def test_on_a_terminal_one_line_is_redrawn_and_stays() -> None:
    with terminal() as (stream, master):
        screen = replace(Screen.of(stream, {"TERM": "xterm"}), columns=lambda: 40)
        assert screen.is_live
        await follow_states([START, HALFWAY], screen)
        seen = read_line(master)
    assert seen.count("\n") == 1
    assert seen.endswith("\r\n")
    drawn = [line for line in seen.rstrip().split("\r\x1b[K") if line]
    assert drawn[0].startswith("0/72")
    assert drawn[-1] == "36/72  57% pass  1 error"


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": "xterm", "CI": "true"}])
def test_a_dumb_terminal_and_ci_get_plain_lines(env: dict[str, str]) -> None:
    with terminal() as (stream, _):
        assert not Screen.of(stream, env).is_live


def test_ci_set_to_false_is_not_ci() -> None:
    with terminal() as (stream, _):
        assert Screen.of(stream, {"TERM": "xterm", "CI": "false"}).is_live


async def test_a_terminal_without_utf8_shows_something_instead_of_failing() -> None:
    with terminal("ascii") as (stream, master):
        screen = Screen.of(stream, {"TERM": "xterm"})
        await follow_states([replace(START, note="größer")], screen)
        assert "gr??er" in read_line(master)


class Gone(io.StringIO):
    def write(self, text: str, /) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("is_live", [True, False])
async def test_a_screen_that_is_gone_does_not_disturb_the_run(is_live: bool) -> None:
    await follow(lambda: HALFWAY, Screen(stream=Gone(), is_live=is_live), Pauses(1))


@pytest.mark.parametrize("is_live", [True, False])
async def test_a_warning_gets_a_line_of_its_own_once(is_live: bool) -> None:
    stream = io.StringIO()
    told = replace(START, warning="the budget can't hold")
    await follow_states(
        [START, told, told, replace(told, committed=3)], Screen(stream=stream, is_live=is_live)
    )
    assert stream.getvalue().count("warning: the budget can't hold\n") == 1


async def test_a_warning_that_comes_with_the_end_is_still_told() -> None:
    stream, ahead = io.StringIO(), iter([START])
    late = replace(START, warning="too late")
    with pytest.raises(asyncio.CancelledError):
        await follow(lambda: next(ahead, late), Screen(stream=stream, is_live=False), Pauses(1))
    assert "warning: too late\n" in stream.getvalue()
