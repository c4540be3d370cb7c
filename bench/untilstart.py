"""How long a run that lies there takes until its first trial starts, against reading its files once."""

import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

from bench.catalogue import Found
from bench.figures import Bar, Figure
from bench.rounds import Rounds, Sample, Work
from labrunner.store.layout import RunPaths


def iter_lines(paths: RunPaths) -> Iterator[bytes]:
    """Every line of a run's journal, rows and timings."""
    for path in (paths.commits, paths.predictions, paths.scores, paths.trials, paths.timings):
        with path.open("rb") as file:
            yield from file


def time_reading(texts: Callable[[], Iterable[bytes]]) -> Work:
    """The bare side: the work is to decode each text once."""

    def work() -> dict[str, float]:
        began = time.monotonic()
        for text in texts():
            msgspec.json.decode(text)
        return {"until_start_s": time.monotonic() - began}

    return work


def report(taken: Rounds, name: str, *, most_ratio: float | None = None) -> Found:
    """What the rounds of both sides say; `name` says which trial starts."""
    ours, bare = (taken.median(side, _until_start) for side in ("ours", "bare"))
    ratio = taken.ratio("ours", "bare", _until_start)
    bar = None if most_ratio is None else Bar("at_most", most_ratio)
    return Found(
        figures=(
            Figure(name="reading the files", value=bare, unit="s"),
            Figure(name=name, value=ours, unit="s", bar=Bar("at_most", 2.0)),
            Figure(name="ratio", value=ratio, unit="x", bar=bar),
        ),
        samples={side: [_until_start(sample) for sample in samples] for side, samples in taken.sides.items()},
    )


def _until_start(sample: Sample) -> float:
    return sample.extra["until_start_s"]
