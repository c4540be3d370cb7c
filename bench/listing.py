"""`bench listing`: listing a directory of many runs, and opening one long run that ended.

Listing: every run's name, state and counts, as `lab log list` needs them. Opening: what `lab show` needs.
Against reading every run's record and status once.
"""

from pathlib import Path
from typing import Final

import msgspec

from bench.analysis import make_run
from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.rounds import Side, Sizes, Work, take_rounds
from labrunner.records.encoding import canonical
from labrunner.records.seals import seal
from labrunner.runner.reports.lookup import picture
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.reports.results import summarise_run
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import list_runs
from labrunner.store.rows.single_records import read_run, read_status


def make_runs(folder: Path, count: int) -> Path:
    """Make a directory of many small runs: what a listing looks at, copied from one."""
    one, runs_dir = make_run(folder / "one", {"trials": 3}), folder / "runs"
    record, status = read_run(one), read_status(one)
    assert status is not None
    for number in range(count):
        paths = RunPaths(runs_dir / f"run-{number:05}")
        paths.root.mkdir(parents=True)
        paths.lock.write_bytes(one.lock.read_bytes())
        for path, kept in ((paths.run, record), (paths.status, status)):
            renamed = msgspec.structs.replace(kept, run_id=paths.root.name)
            path.write_bytes(canonical.encode_line(seal(renamed)))
    return runs_dir


def prepare_list(folder: Path, sizes: Sizes) -> Work:
    """Make runs; the work is to list them."""
    runs_dir = make_runs(folder, sizes["runs"])

    def work() -> None:
        found = list_runs(runs_dir)
        assert [run.state for run in found] == ["success"] * sizes["runs"]

    return work


def prepare_read(folder: Path, sizes: Sizes) -> Work:
    """Make runs; the work is to read what a listing needs of them."""
    runs_dir = make_runs(folder, sizes["runs"])

    def work() -> None:
        for root in runs_dir.iterdir():
            RunPaths(root).run.read_bytes()
            RunPaths(root).status.read_bytes()

    return work


def prepare_open(folder: Path, sizes: Sizes) -> Work:
    """Make a long run that ended, with its summary; the work is to open it."""
    paths = make_run(folder, sizes)
    summary = summarise_run(read_experiment(paths), "bench", paths)
    paths.summary.write_bytes(canonical.encode_line(summary))

    def work() -> None:
        assert picture(paths).status.counts.committed == sizes["trials"]

    return work


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("listing", tuple(SIDES), sizes, rounds)
    return Found(
        figures=(
            Figure(name="reading what a listing needs", value=taken.median("read"), unit="s"),
            Figure(name="listing", value=taken.median("list"), unit="s", bar=Bar("at_most", 1.0)),
            Figure(name="opening a long run", value=taken.median("open"), unit="s", bar=Bar("at_most", 1.0)),
            Figure(name="ratio", value=taken.ratio("list", "read"), unit="x"),
        ),
        samples={name: [sample.wall_s for sample in samples] for name, samples in taken.sides.items()},
    )


SIDES: Final[dict[str, Side]] = {"list": prepare_list, "read": prepare_read, "open": prepare_open}
BENCH: Final = Bench(
    name="listing",
    work="listing 1,000 runs, and opening a run of 100,000 trials",
    against="reading every run's record and status once",
    sizes={"runs": 1_000, "trials": 100_000},
    rounds=3,
    measure=measure,
)
