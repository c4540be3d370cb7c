"""What a bench found: figures with the bars that they are held to, and the line that is kept of them."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

RESULTS = Path(__file__).parent / "results"


class Bar(msgspec.Struct, frozen=True):
    """What a figure is held to."""

    kind: Literal["at_most", "at_least"]
    value: float


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number of a bench."""

    name: str
    value: float
    unit: str
    bar: Bar | None = None

    @property
    def is_met(self) -> bool:
        """Whether the figure is on the right side of its bar."""
        if self.bar is None:
            return True
        return self.value <= self.bar.value if self.bar.kind == "at_most" else self.value >= self.bar.value


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured, and how busy that was."""

    system: str
    python: str
    cpus: int
    load: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a bench: a line of `bench/results/<name>.jsonl`."""

    bench: str
    measured_at: str
    sizes: dict[str, int]
    rounds: int
    figures: tuple[Figure, ...]
    """The ratio last."""
    samples: dict[str, list[float]]
    """What each side took in each round."""
    host: Host


def look_at_host() -> Host:
    """Say where we are."""
    return Host(
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        cpus=len(os.sched_getaffinity(0)),
        load=round(os.getloadavg()[0], 2),
    )


def now() -> str:
    """The time of a measurement."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def keep(result: Result, folder: Path = RESULTS) -> None:
    """Append a result to the others of its bench."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{result.bench}.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(result) + b"\n")


def last(bench: str, folder: Path = RESULTS) -> Result | None:
    """Read the newest result of a bench."""
    path = folder / f"{bench}.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return msgspec.json.decode(lines[-1], type=Result) if lines else None


def show(figure: Figure) -> str:
    """A figure as people read it, with its bar."""
    text = f"{_number(figure.value)}{_unit(figure.unit)}"
    if figure.bar is None:
        return text
    sign = "<=" if figure.bar.kind == "at_most" else ">="
    word = "met" if figure.is_met else "MISSED"
    return f"{text} ({sign} {_number(figure.bar.value)}{_unit(figure.unit)}: {word})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _unit(unit: str) -> str:
    return unit if unit == "x" else f" {unit}"
