"""Answers one query of ours over a run of any size, a slice of its slots at a time.

Rules: the query must be one whose rows come from single slots, so that the answers of slices, one after
another, are the answer of the whole. It is part of this program: no door is closed for it.
"""

import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

import msgspec

from labrunner.errors import DamagedRun
from labrunner.query.database import BATCH, connect, load_marks, load_view
from labrunner.query.snapshot import Source, Sources, take_snapshot
from labrunner.query.views import VIEWS, quote
from labrunner.store.layout import RunPaths

if TYPE_CHECKING:
    import duckdb

SLOTS: Final = 10_000
"""How many slots are in memory at a time."""


class _Placed(msgspec.Struct):
    schedule_idx: int


_placed: Final = msgspec.json.Decoder(_Placed)


_Take: TypeAlias = "Callable[[Mapping[str, Source], Mapping[str, _SliceReader]], Sources]"
"""Takes the next slice of a group of files."""


@dataclass(slots=True)
class SlicedAnswer:
    """What a query finds in a run, slice by slice. It can be gone through once."""

    connection: "duckdb.DuckDBPyConnection"
    sql: str
    tables: Sequence[str]
    slices: Iterator[Sources]
    folder: Path
    columns: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Load the first slice: it tells the columns."""
        self._load(next(self.slices))
        self.columns = list(self.connection.sql(self.sql).columns)

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The rows, in the order of the slices."""
        for _ in self._each():
            found = self.connection.execute(self.sql)
            while batch := found.fetchmany(BATCH):
                yield from batch

    def write_parquet(self, target: Path) -> None:
        """Write the answer as a Parquet file: a file a slice, and then one of all."""
        self.connection.execute("SET threads = 1")  # each would keep rows of its own until they are written
        for number in self._each():
            self._copy(self.sql, self.folder / f"{number:06}.parquet")
        parts = quote(str(self.folder / "*.parquet"))
        self._copy(f"SELECT * FROM read_parquet({parts})", target)

    def _copy(self, sql: str, target: Path) -> None:
        options = f"FORMAT parquet, ROW_GROUP_SIZE {SLOTS}"
        self.connection.execute(f"COPY ({sql}) TO {quote(str(target))} ({options})")

    def _each(self) -> Iterator[int]:
        """Load one slice after the other; the first is there."""
        yield 0
        for number in count(1):
            sources = next(self.slices, None)
            if sources is None:
                return
            self._load(sources)
            yield number

    def _load(self, sources: Sources) -> None:
        for name in self.tables:
            load_view(self.connection, name, sources, None)


@contextmanager
def ask_in_slices(
    paths: RunPaths, sql: str, tables: Sequence[str], slots: int = SLOTS
) -> Iterator[SlicedAnswer]:
    """Carry out a query of ours over these tables of a run, in the order of the schedule.

    Raises DamagedRun when rows can't be read: the query is ours, so it is they that are wrong.
    """
    import duckdb

    try:
        with _answer(paths, sql, tables, slots) as answer:
            yield answer
    except (duckdb.DataError, duckdb.InvalidInputException, msgspec.DecodeError) as error:
        raise DamagedRun(f"reading rows of {paths.root.name}: {error}; try: lab verify") from error


@contextmanager
def _answer(paths: RunPaths, sql: str, tables: Sequence[str], slots: int) -> Iterator[SlicedAnswer]:
    with tempfile.TemporaryDirectory(prefix="lab-query-") as name, ExitStack() as stack:
        folder = Path(name)
        for each in ("snapshot", "slice", "parts"):
            (folder / each).mkdir()
        connection = stack.enter_context(connect(folder))
        files = sorted({VIEWS[table].file for table in tables})
        sources = take_snapshot([paths], files, folder / "snapshot", copy=True)
        # Rows keep the order of their files when it is they that look for tasks and marks.
        connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        load_marks(connection, sources, None)
        take = partial(_take, folder=folder / "slice", slots=slots)
        slices = _cut(sources, files, take, stack)
        yield SlicedAnswer(connection, sql, tables, slices, folder / "parts")


def _cut(sources: Sources, names: Sequence[str], take: _Take, stack: ExitStack) -> Iterator[Sources]:
    """Files of so many slots each; at least one, so that every table is there."""
    groups = [
        {name: each for name in names for each in sources.files[name] if each.is_committed is is_committed}
        for is_committed in (True, False)
    ]
    is_first = True
    for group in groups:
        readers = {
            name: _SliceReader(stack.enter_context(source.path.open("rb"))) for name, source in group.items()
        }
        while group and (is_first or not readers["trials"].is_at_end):
            is_first = False
            yield take(group, readers)


def _take(
    group: Mapping[str, Source], readers: "Mapping[str, _SliceReader]", *, folder: Path, slots: int
) -> Sources:
    taken = Sources()
    last = readers["trials"].find_last(slots)
    for name, source in group.items():
        path = folder / f"{name}.jsonl"
        path.write_bytes(b"".join(readers[name].take(last)))
        taken.files[name].append(Source(path=path, is_committed=source.is_committed, run_id=source.run_id))
    return taken


class _SliceReader:
    """Rows of one file, in the order of their slots."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._ahead: deque[tuple[int, bytes]] = deque()

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return not self._look()

    def find_last(self, slots: int) -> int:
        """The last of the next few slots."""
        while len(self._ahead) < slots and self._read():
            pass
        return self._ahead[min(slots, len(self._ahead)) - 1][0] if self._ahead else -1

    def take(self, last: int) -> Iterator[bytes]:
        """Lines up to a slot."""
        while self._look() and self._ahead[0][0] <= last:
            yield self._ahead.popleft()[1]

    def _look(self) -> bool:
        return bool(self._ahead) or self._read()

    def _read(self) -> bool:
        line = self._file.readline()
        if line:
            self._ahead.append((_placed.decode(line).schedule_idx, line))
        return bool(line)
