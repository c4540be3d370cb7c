"""Sandboxes that runs left behind, of every kind whose sandboxes outlive their runner."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from labrunner.errors import InputError
from labrunner.experiment.sandbox_kinds import KINDS
from labrunner.sandbox.marks import RunMark
from labrunner.sandbox.registry import find_kind
from labrunner.sandbox.sweeper import Sweeper
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import RunListing


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Sandboxes of one run, or of one that is gone, that can go."""

    kind: str
    ids: tuple[str, ...]
    run: RunPaths | None = None
    whose: str = ""
    """What they belonged to, where the run is gone."""
    waiting: int = 0
    """How many others wait for `lab continue`: paid work, which only giving the run up removes."""


async def find_strays(runs: Iterable[RunListing]) -> list[Stray]:
    """Find what is left of these runs."""
    marks = {RunMark.of(run.paths.root, run.run_id): run for run in runs}
    found = list[Stray]()
    for kind, sweeper in _sweepers():
        left = await sweeper.find_strays({mark: run.state == "success" for mark, run in marks.items()})
        found += [
            Stray(kind=kind, run=marks[mark].paths, ids=each.ids, waiting=each.waiting)
            for mark, each in left.items()
            if each.ids or each.waiting
        ]
    return found


async def find_orphans(*, ended_before: float) -> list[Stray]:
    """Find ended sandboxes of runs of this machine that are not there any more."""
    return [
        Stray(kind=kind, ids=each.ids, whose=each.whose)
        for kind, sweeper in _sweepers()
        for each in await sweeper.find_orphans(ended_before=ended_before)
    ]


async def remove_strays(kind: str, ids: tuple[str, ...]) -> None:
    """Remove sandboxes of a kind."""
    for name, sweeper in _sweepers():
        if name == kind:
            await sweeper.remove(ids)


async def remove_all_of(paths: RunPaths, run_id: str) -> int:
    """Remove every sandbox of a run that is given up; how many there were."""
    mark = RunMark.of(paths.root, run_id)
    return sum([await sweeper.remove_all_of(mark) for _, sweeper in _sweepers()])


def _sweepers() -> Iterator[tuple[str, Sweeper]]:
    """One for each kind that has one. A kind that can't be loaded is told of by `lab doctor`."""
    for known in KINDS.list_known():
        if known.problem:
            continue
        try:
            kind = find_kind(known.name)
        except InputError:
            continue
        if kind.make_sweeper is not None:
            yield known.name, kind.make_sweeper()
