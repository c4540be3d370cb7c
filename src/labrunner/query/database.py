"""Answers SQL from a snapshot of runs.

Rules: only the tables that a query names are loaded, into memory, with the columns that it can reach; then
the door is closed (no file, no extension, no attaching, no other setting) before a word of the query is
carried out. One SELECT, no more. Rows lie in the order of the runs as they were named, and of their files:
what is asked without an order has the same one each time.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from labrunner.errors import DamagedRun, InputError
from labrunner.query.reach import find_columns
from labrunner.query.snapshot import Sources, take_snapshot
from labrunner.query.views import EARLIER, IDS, LONGEST_LINE, REROLL, VIEWS, RowFile, make_table, quote
from labrunner.query.waiting import wait_for
from labrunner.store.layout import RunPaths

if TYPE_CHECKING:
    import duckdb

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "python_enable_replacements": "false",  # SQL must not see variables of this program
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
BATCH: Final = 2_000
_DOING: Final = frozenset(
    {
        *("alter", "analyze", "attach", "call", "checkpoint", "copy", "create", "delete", "detach", "drop"),
        *("execute", "export", "import", "insert", "install", "load", "merge", "pragma", "prepare", "reset"),
        *("set", "truncate", "update", "use", "vacuum"),
    }
)
"""Words of statements that do more than ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What has to be loaded."""

    tables: Sequence[str]
    columns: frozenset[str] | None
    """None for all."""


class SqlAnswer:
    """What a query finds; it is carried out when rows or a table are asked for."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", sql: str, folder: Path) -> None:
        """Take a closed connection, and the one folder that it may write to."""
        self.relation = connection.sql(sql)
        self._connection = connection
        self._sql = sql
        self._folder = folder

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.relation.columns)

    @property
    def types(self) -> list[str]:
        """Types of the columns, as SQL names them."""
        return [str(kind) for kind in self.relation.types]

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The rows, a few thousand in memory at a time."""
        found = wait_for(self._connection, lambda: self._connection.execute(self._sql))
        while batch := wait_for(self._connection, lambda: found.fetchmany(BATCH)):
            yield from batch

    def write_parquet(self, target: Path) -> None:
        """Write the answer as a Parquet file."""
        made = self._folder / "answer.parquet"
        wait_for(self._connection, lambda: self.relation.write_parquet(str(made)))
        shutil.move(made, target)


@contextmanager
def ask(runs: Sequence[RunPaths], sql: str) -> Iterator[SqlAnswer]:
    """Carry out one SELECT over runs; the answer can be used until the context ends.

    Raises InputError for SQL that can't be carried out.
    """
    with tempfile.TemporaryDirectory(prefix="lab-query-") as name, ExitStack() as stack:
        folder = Path(name)
        connection = stack.enter_context(connect(folder))
        with _blaming_sql():
            _refuse_other_statements(connection, sql)
            reached = _find_reached(connection, sql)
        try:
            answer = _prepare(connection, runs, sql, folder / "reached", reached)
        except InputError:
            if reached is None:
                raise
            # Told again with every column there: the message names those that may have been meant.
            connection = stack.enter_context(connect(folder))
            answer = _prepare(connection, runs, sql, folder / "all", None)
        with _blaming_sql():
            yield answer


@contextmanager
def connect(folder: Path) -> "Iterator[duckdb.DuckDBPyConnection]":
    """A database in memory that may spill into a folder."""
    import duckdb

    config = {**_CONFIG, "temp_directory": str(folder / "spill")}
    with closing(duckdb.connect(":memory:", config=config)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def _prepare(
    connection: "duckdb.DuckDBPyConnection",
    runs: Sequence[RunPaths],
    sql: str,
    folder: Path,
    reached: frozenset[str] | None,
) -> SqlAnswer:
    """Load what a query asks for, and close the door behind it."""
    answers = folder / "answers"
    answers.mkdir(parents=True)
    # Rows keep the order of their files when it is they that look for tasks and marks, not the other way.
    connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    wanted = Wanted(tables=_find_names(sql), columns=reached)
    wait_for(connection, lambda: _load(connection, runs, wanted, folder))
    connection.execute("RESET disabled_optimizers")
    _close_door(connection, answers)
    with _blaming_sql():
        return SqlAnswer(connection, sql, answers)


@contextmanager
def _blaming_sql() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise InputError("SQL", str(error)) from error


def _find_names(sql: str) -> list[str]:
    """Tables whose names stand in the query; all of them when none does."""
    words = set(re.findall(r"\w+", sql.lower()))
    return [name for name in VIEWS if name in words] or list(VIEWS)


def _refuse_other_statements(connection: "duckdb.DuckDBPyConnection", sql: str) -> None:
    import duckdb

    statements = connection.extract_statements(sql)
    kinds = [statement.type for statement in statements]
    if kinds == [duckdb.StatementType.MULTI] and _only_asks(sql):
        return  # a PIVOT whose columns come from the data
    if kinds != [duckdb.StatementType.SELECT]:
        raise InputError(
            "SQL", "expected one SELECT (or WITH, FROM, PIVOT, DESCRIBE, SHOW TABLES), and nothing else"
        )


def _only_asks(sql: str) -> bool:
    """Whether no word of a query does anything but ask; in quotes they are names."""
    import duckdb

    tokens = [(at, kind) for at, kind in duckdb.tokenize(sql) if kind == duckdb.token_type.keyword]
    words = [re.match(r"\w*", sql.encode()[at:].decode(errors="replace")) for at, _ in tokens]
    return _DOING.isdisjoint(word[0].lower() for word in words if word is not None)


def _find_reached(connection: "duckdb.DuckDBPyConnection", sql: str) -> frozenset[str] | None:
    found = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    return find_columns(found[0]) if found else None


def _load(
    connection: "duckdb.DuckDBPyConnection", runs: Sequence[RunPaths], wanted: Wanted, folder: Path
) -> None:
    import duckdb

    files = sorted({VIEWS[name].file for name in wanted.tables})
    for number, copy in enumerate((False, True)):
        place = folder / f"snapshot-{number}"
        place.mkdir()
        sources = take_snapshot(runs, files, place, copy=copy)
        try:
            load_marks(connection, sources, wanted.columns)
            for name in wanted.tables:
                load_view(connection, name, sources, wanted.columns)
        except duckdb.Error as error:
            # A file read in place that began to grow may have been torn; copies are not.
            if copy or not sources.have_changed():
                raise DamagedRun(f"reading rows of {_name(runs)}: {error}; try: lab verify") from error
            continue
        if not sources.have_changed():
            return


def _name(runs: Sequence[RunPaths]) -> str:
    return ", ".join(paths.root.name for paths in runs)


def load_view(
    connection: "duckdb.DuckDBPyConnection", name: str, sources: Sources, reached: frozenset[str] | None
) -> None:
    """Make a view's table."""
    files = [
        RowFile(path=str(source.path), is_committed=source.is_committed, run_id=source.run_id)
        for source in sources.files[VIEWS[name].file]
    ]
    connection.execute(make_table(name, files, reached))


def load_marks(
    connection: "duckdb.DuckDBPyConnection", sources: Sources, reached: frozenset[str] | None
) -> None:
    """Load what trials are joined with: groups of tasks, and marks of trials not to be used."""
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE groups (run_id VARCHAR, task_id VARCHAR, task_group VARCHAR)"
    )
    for run_id, path in sources.tasks if reached is None or "task_group" in reached else ():
        connection.execute(
            f'INSERT INTO groups SELECT {quote(run_id)}, id, "group" FROM read_json({quote(str(path))}, '
            f"format = 'newline_delimited', maximum_object_size = {LONGEST_LINE}, "
            "columns = {'id': 'VARCHAR', 'group': 'VARCHAR'})"
        )
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE before "
        "(run_id VARCHAR, trial_id VARCHAR, attempts BIGINT, rerolls BIGINT)"
    )
    for path in sources.earlier:
        connection.execute(
            "INSERT INTO before SELECT ids.run_id, ids.trial_id, len(attempts), "
            f"len(list_filter(attempts, lambda a: {REROLL})) FROM read_json({quote(str(path))}, "
            f"format = 'newline_delimited', columns = {{'ids': {quote(IDS)}, 'attempts': '{EARLIER}[]'}})"
        )
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE marks (run_id VARCHAR, trial_id VARCHAR, reason VARCHAR)"
    )
    marks = {(run_id, mark.trial_id): mark.reason for run_id, mark in sources.invalidations}
    if marks:
        rows = [(run_id, trial_id, reason) for (run_id, trial_id), reason in marks.items()]
        connection.executemany("INSERT INTO marks VALUES (?, ?, ?)", rows)


def _close_door(connection: "duckdb.DuckDBPyConnection", answers: Path) -> None:
    connection.execute("DROP TABLE groups")
    connection.execute("DROP TABLE before")
    connection.execute("DROP TABLE marks")
    connection.execute(f"SET allowed_directories = [{quote(str(answers))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
