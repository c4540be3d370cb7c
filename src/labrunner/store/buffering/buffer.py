"""The buffer database: results that finished before their turn, attempts under way, live events.

Rules: one write connection, in the writer's thread; a transaction either syncs (FULL) or is one that
may be lost in a power cut but not with the process (NORMAL). Losing the buffer never costs a
committed row. Readers open it read-only.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from labrunner.errors import StoreError
from labrunner.files.durable import storing
from labrunner.files.points import reach
from labrunner.store.buffering.attempts import AttemptNote, AttemptState
from labrunner.store.buffering.faults import is_broken, is_full, is_unsynced, tell, using

VERSION: Final = 1
_NODES: Final = "CREATE TABLE IF NOT EXISTS nodes (token TEXT PRIMARY KEY, node TEXT NOT NULL) WITHOUT ROWID"
"""A table of its own, so that programs that know nothing of clusters go on with a run, and we with theirs."""
_SCHEMA: Final = f"""
CREATE TABLE completions (
    schedule_idx INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL,
    token TEXT NOT NULL,
    digest TEXT NOT NULL,
    payload BLOB NOT NULL
);
CREATE TABLE attempts (
    token TEXT PRIMARY KEY,
    schedule_idx INTEGER NOT NULL,
    trial_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    barrier BLOB,
    grader_started INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE events (
    trial_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    json BLOB NOT NULL,
    PRIMARY KEY (trial_id, attempt, seq)
) WITHOUT ROWID;
{_NODES};
PRAGMA user_version = {VERSION};
"""


class BrokenBuffer(Exception):
    """The database can't be read: nobody knows what it held. Opening turns this into a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedSlot:
    """A finished slot as it lies in the buffer."""

    schedule_idx: int
    attempt: int
    token: str
    digest: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a transcript that is still being written."""

    trial_id: str
    attempt: int
    seq: int
    json: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one transaction does."""

    completions: Sequence[BufferedSlot] = ()
    attempts: Sequence[AttemptNote] = ()
    gone_tokens: Sequence[str] = ()
    events: Sequence[Event] = ()
    gone_trials: Sequence[str] = ()
    """Trials whose events are kept elsewhere now."""
    committed: int | None = None
    """Drop every completion of a slot before this one."""


class Buffer:
    """The owner's connection."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Take over a connection; see `open_buffer`."""
        self.spend: Callable[[], bool] = lambda: False
        """Makes room on a full disk, if it can."""
        self._path = path
        self._connection = connection
        self._synced = True

    def write(self, changes: Changes, *, synced: bool) -> None:
        """Carry out all changes, or none."""
        with using(self._path):
            self._set_synced(synced)
            try:
                self._transact(changes)
            except sqlite3.Error as error:
                if is_unsynced(error) or not (is_full(self._path, error) and self.spend()):
                    raise
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._transact(changes)
        if changes.committed is not None:
            reach("buffer.trimmed")

    def _transact(self, changes: Changes) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        reach("buffer.begun")
        self._apply(changes)
        reach("buffer.inserted")
        self._connection.execute("COMMIT")
        reach("buffer.committed")

    def _apply(self, changes: Changes) -> None:
        run = self._connection.executemany
        run(
            "INSERT INTO completions VALUES (?, ?, ?, ?, ?)",
            ((c.schedule_idx, c.attempt, c.token, c.digest, c.payload) for c in changes.completions),
        )
        run(
            "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (a.token, a.schedule_idx, a.trial_id, a.attempt, a.state, _noted(a), a.grader_started)
                for a in changes.attempts
            ),
        )
        placed = ((a.token, a.node) for a in changes.attempts if a.node is not None)
        run("INSERT OR REPLACE INTO nodes VALUES (?, ?)", placed)
        for table in ("attempts", "nodes"):
            run(f"DELETE FROM {table} WHERE token = ?", ((token,) for token in changes.gone_tokens))
        run(
            "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?)",
            ((e.trial_id, e.attempt, e.seq, e.json) for e in changes.events),
        )
        run("DELETE FROM events WHERE trial_id = ?", ((trial,) for trial in changes.gone_trials))
        if changes.committed is not None:
            self._connection.execute("DELETE FROM completions WHERE schedule_idx < ?", (changes.committed,))

    def drop(self, schedule_idx: int) -> None:
        """Drop one completion that can't be used."""
        with using(self._path):
            self._connection.execute("DELETE FROM completions WHERE schedule_idx = ?", (schedule_idx,))

    def completions(self, start: int, stop: int) -> list[BufferedSlot]:
        """Finished slots in a range, in order."""
        with using(self._path):
            return list(_select(self._connection, start, stop))

    def find(self, schedule_idx: int) -> BufferedSlot | None:
        """One finished slot."""
        return next(iter(self.completions(schedule_idx, schedule_idx + 1)), None)

    def slots(self) -> list[int]:
        """Every finished slot's number."""
        with using(self._path):
            rows = self._connection.execute("SELECT schedule_idx FROM completions ORDER BY schedule_idx")
            return [idx for (idx,) in rows]

    def attempts(self) -> list[AttemptNote]:
        """Attempts that were under way when this was last written."""
        with using(self._path):
            return list(select_attempts(self._connection))

    def close(self) -> None:
        """Close the connection; the last one to close moves everything into the main file."""
        with using(self._path):
            self._connection.close()

    def _set_synced(self, synced: bool) -> None:
        if synced != self._synced:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self._synced = synced


def create_buffer(path: Path) -> None:
    """Make an empty buffer. The caller syncs its folder."""
    with using(path):
        connection = _connect(path)
        try:
            connection.executescript(_SCHEMA)
        finally:
            connection.close()


def open_buffer(path: Path) -> Buffer:
    """Open the owner's connection. Raises BrokenBuffer when the file is no buffer, or not a sound one."""
    if is_empty(path):
        raise BrokenBuffer("the file is empty")
    try:
        connection = _connect(path)
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        damage = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        if is_broken(error):
            raise BrokenBuffer(str(error)) from error
        raise StoreError(f"opening {path}: {tell(path, error)}") from error
    if version == VERSION and damage == "ok":
        with using(path):
            connection.execute(_NODES)
        return Buffer(path, connection)
    connection.close()
    if version > VERSION:
        raise StoreError(
            f"opening {path}: its version {version} is newer than this program knows ({VERSION}); "
            "use the labrunner that began this run, or a newer one"
        )
    raise BrokenBuffer(damage if damage != "ok" else "it has no tables")


@contextmanager
def snapshot(path: Path) -> Iterator[Iterator[BufferedSlot]]:
    """Completions as they are at this moment, for readers. Empty when there is no buffer.

    Raises StoreError when it can't be read.
    """
    if not path.exists():
        yield iter(())
        return
    with using(path):
        connection = connect_read_only(path)
    try:
        with using(path):
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM completions").fetchone()  # the snapshot begins here
        yield _read_guarded(path, connection)
    finally:
        connection.close()


def read_live(path: Path) -> tuple[list[AttemptNote], list[Event]]:
    """Attempts under way and their events as they are at this moment, for readers.

    Raises StoreError when it can't be read.
    """
    if not path.exists():
        return [], []
    with using(path):
        connection = connect_read_only(path)
        try:
            connection.execute("BEGIN")
            rows = connection.execute(
                "SELECT trial_id, attempt, seq, json FROM events ORDER BY trial_id, attempt, seq"
            )
            events = [Event(trial_id=t, attempt=a, seq=n, json=data) for t, a, n, data in rows]
            return list(select_attempts(connection)), events
        finally:
            connection.close()


def _read_guarded(path: Path, connection: sqlite3.Connection) -> Iterator[BufferedSlot]:
    with using(path):
        yield from _select(connection, 0, 1 << 62)


def is_empty(path: Path) -> bool:
    """Whether nothing is left of the file: then SQLite, merely asked to read it, would remove its log."""
    return path.stat().st_size == 0


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A reader's connection."""
    if is_empty(path):
        raise StoreError(f"opening {path}: the file is empty")
    # A snapshot may be gone through by several threads, one after another.
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError:
        # A folder that can't be written to: nobody else can change it under us either.
        return _connect_copy(path)
    return connection


def _connect_copy(path: Path) -> sqlite3.Connection:
    """Read a database and its log where they can't be opened in place: a copy, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with storing("reading", path), tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        for part in (path, path.with_name(f"{path.name}-wal")):
            if part.exists():
                shutil.copyfile(part, copy.with_name(part.name))
        whole = sqlite3.connect(copy)
        try:
            whole.backup(connection)
        finally:
            whole.close()
    return connection


def _select(connection: sqlite3.Connection, start: int, stop: int) -> Iterator[BufferedSlot]:
    rows = connection.execute(
        "SELECT schedule_idx, attempt, token, digest, payload FROM completions "
        "WHERE schedule_idx >= ? AND schedule_idx < ? ORDER BY schedule_idx",
        (start, stop),
    )
    for schedule_idx, attempt, token, digest, payload in rows:
        # A column holds whatever was put there: foreign text must fail its check, not the program.
        data = payload if isinstance(payload, bytes) else str(payload).encode()
        yield BufferedSlot(
            schedule_idx=schedule_idx, attempt=attempt, token=token, digest=digest, payload=data
        )


def select_attempts(connection: sqlite3.Connection) -> Iterator[AttemptNote]:
    """Every attempt's note."""
    nodes = _select_nodes(connection)
    rows: Iterable[tuple[str, int, str, int, str, bytes | None, int]] = connection.execute(
        "SELECT token, schedule_idx, trial_id, attempt, state, barrier, grader_started FROM attempts"
    )
    for token, schedule_idx, trial_id, attempt, state, noted, grader_started in rows:
        yield AttemptNote(
            token=token,
            schedule_idx=schedule_idx,
            trial_id=trial_id,
            attempt=attempt,
            state=cast("AttemptState", state),  # written by this module only
            barrier=noted if state != "failed" else None,
            failure=noted if state == "failed" else None,
            grader_started=bool(grader_started),
            node=nodes.get(token),
        )


def _select_nodes(connection: sqlite3.Connection) -> dict[str, str]:
    """Which node has which attempt; nothing in a buffer whose owner never heard of nodes."""
    is_there = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'nodes'").fetchone()[0]
    if not is_there:
        return {}
    return {token: str(node) for token, node in connection.execute("SELECT token, node FROM nodes")}


def _noted(note: AttemptNote) -> bytes | None:
    """What stands in the column `barrier`: how the agent ended, or by then how the whole attempt failed."""
    return note.failure if note.state == "failed" else note.barrier
