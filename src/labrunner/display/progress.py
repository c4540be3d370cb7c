"""Progress of a run: one line, redrawn on a terminal, printed now and then elsewhere.

Rules: `render` is pure and its line never exceeds the width; nothing that goes wrong with the screen
disturbs the run; without a terminal (or with CI set) there is a line every 10 s or 10%, and one at the end.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self, TextIO

from labrunner.display.text.quantities import format_count, format_duration, format_share
from labrunner.display.text.safetext import sanitise_line

REDRAW_S: Final = 0.2
LOOK_S: Final = 0.5
PLAIN_EVERY_S: Final = 10.0
PLAIN_STEPS: Final = 10
BAR_CELLS: Final = 16
_CLEAR_LINE: Final = "\r\x1b[K"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    planned: int
    committed: int
    buffered: int
    running: int
    passed: int
    failed: int
    errors: int
    elapsed_s: float
    eta_s: float | None = None
    note: str = ""
    """What people should know now: stopping, waiting for a provider…"""
    warning: str = ""
    """What they must hear once: it gets a line of its own, which stays."""

    @property
    def done(self) -> int:
        """Trials that are final and durable."""
        return self.committed + self.buffered


class Terminal(Protocol):
    """What `Screen` needs of a stream."""

    def write(self, text: str, /) -> object:
        """Write text."""
        ...

    def flush(self) -> object:
        """Show it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Where progress is shown."""

    stream: Terminal
    is_live: bool
    """Whether the line can be redrawn."""
    encoding: str = "utf-8"
    columns: Callable[[], int] = lambda: 80

    @classmethod
    def of(cls, stream: TextIO, env: Mapping[str, str] = os.environ) -> Self:
        """Look at a stream and its environment."""
        is_ci = env.get("CI", "").lower() not in {"", "0", "false"}
        is_live = stream.isatty() and env.get("TERM") != "dumb" and not is_ci
        return cls(
            stream=stream,
            is_live=is_live,
            encoding=stream.encoding or "ascii",
            columns=lambda: shutil.get_terminal_size().columns,
        )

    def write(self, text: str) -> None:
        """Write text, with what this stream can't encode replaced."""
        self.stream.write(text.encode(self.encoding, "replace").decode(self.encoding))
        self.stream.flush()


@dataclass(slots=True, kw_only=True)
class Pace:
    """How fast trials finish in this sitting."""

    planned: int
    done_before: int
    """What earlier sittings had finished."""
    _done: int = -1
    _noted_s: float = 0.0
    """When the last trial finished."""

    def estimate_left(self, *, done: int, elapsed_s: float) -> float | None:
        """Estimate the seconds left; None before the first trial, and once the estimate has passed.

        It is made when a trial finishes and counts down from there: while nothing finishes it does not grow.
        """
        if done != self._done:
            self._done, self._noted_s = done, elapsed_s
        if done <= self.done_before:
            return None
        estimated = self._noted_s * (self.planned - done) / (done - self.done_before)
        left = estimated - (elapsed_s - self._noted_s)
        return left if left > 0 or done >= self.planned else None


def render(progress: Progress, *, width: int = 80, has_bar: bool = True) -> str:
    """Write progress as one line of at most `width` characters; what matters least is left out first."""
    counts = f"{progress.done}/{progress.planned}"
    by_weight = [
        (0, _bar(progress) if has_bar else ""),
        (5, counts),
        (1, f"{progress.running} running"),
        (3, _pass_rate(progress)),
        (4, format_count(progress.errors, "error") if progress.errors else ""),
        (2, _times(progress)),
        (6, sanitise_line(progress.note)),
    ]
    parts = [(weight, part) for weight, part in by_weight if part]
    while len(parts) > 1 and len(_join(parts)) > width:
        parts.remove(min(parts))
    return _join(parts)[:width]


def is_due(now: Progress, last: Progress | None) -> bool:
    """Whether a plain line is to be printed, given the last one that was."""
    if last is None:
        return True
    has_stepped = _step(now) > _step(last)
    return has_stepped or now.note != last.note or now.elapsed_s - last.elapsed_s >= PLAIN_EVERY_S


async def follow(
    look: Callable[[], Progress], screen: Screen, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Show progress until cancelled; the last state stays on the screen."""
    shown: Progress | None = None
    warned = ""
    try:
        while True:
            now = look()
            warned = _warn(now, warned, screen)
            shown = _show(now, shown, screen)
            await pause(REDRAW_S if screen.is_live else LOOK_S)
    except (OSError, ValueError):
        return  # the screen is gone (closed pipe, closed stream): the run goes on without it
    finally:
        _end(look(), shown, warned, screen)


def _warn(now: Progress, warned: str, screen: Screen) -> str:
    if now.warning and now.warning != warned:
        screen.write(f"{_CLEAR_LINE if screen.is_live else ''}warning: {sanitise_line(now.warning)}\n")
    return now.warning or warned


def _show(now: Progress, shown: Progress | None, screen: Screen) -> Progress | None:
    if screen.is_live:
        # One column stays free: terminals wrap when the last one is written.
        screen.write(_CLEAR_LINE + render(now, width=max(1, screen.columns() - 1)))
        return now
    if is_due(now, shown):
        screen.write(render(now, width=200, has_bar=False) + "\n")
        return now
    return shown


def _end(now: Progress, shown: Progress | None, warned: str, screen: Screen) -> None:
    try:
        _warn(now, warned, screen)
        if screen.is_live:
            _show(now, shown, screen)
            screen.write("\n")
        elif shown is None or (now.done, now.note) != (shown.done, shown.note):
            screen.write(render(now, width=200, has_bar=False) + "\n")
    except (OSError, ValueError):
        return


def _join(parts: list[tuple[int, str]]) -> str:
    return "  ".join(part for _, part in parts)


def _bar(progress: Progress) -> str:
    filled = BAR_CELLS * progress.done // progress.planned if progress.planned else BAR_CELLS
    return f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}]"


def _pass_rate(progress: Progress) -> str:
    graded = progress.passed + progress.failed
    return f"{format_share(progress.passed / graded)} pass" if graded else ""


def _times(progress: Progress) -> str:
    elapsed = format_duration(progress.elapsed_s)
    if progress.eta_s is None or progress.done >= progress.planned:
        return elapsed
    return f"{elapsed}, {format_duration(progress.eta_s)} left"


def _step(progress: Progress) -> int:
    return PLAIN_STEPS * progress.done // progress.planned if progress.planned else PLAIN_STEPS
