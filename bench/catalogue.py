"""The benches by name, and what each module must hold: see `Bench`."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bench.figures import Figure
from bench.rounds import Sizes

NAMES: Final = (
    "engine",
    "files",
    "bubblewrap",
    "docker",
    "layer",
    "gateway",
    "memory",
    "cluster",
    "nodes",
    "wire",
    "start",
    "recover",
    "retry",
    "listing",
    "view",
    "analysis",
    "python",
    "shortcuts",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a bench measured."""

    figures: tuple[Figure, ...]
    """The ratio last."""
    samples: Mapping[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A bench: `BENCH` of its module. Its `SIDES` are what `bench.side` runs."""

    name: str
    work: str
    against: str
    sizes: Sizes
    """Sizes by default; each can be given as an option of its name."""
    rounds: int
    measure: Callable[[Sizes, int], Found]


def find(name: str) -> Bench:
    """Load a bench."""
    found = importlib.import_module(f"bench.{name}").BENCH
    assert isinstance(found, Bench)
    return found
