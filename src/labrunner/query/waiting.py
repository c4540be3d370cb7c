"""Waiting for DuckDB so that Ctrl-C ends the wait: inside its own calls it may notice no signal for hours."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
_AGAIN_S: Final = 0.05


def wait_for(connection: "duckdb.DuckDBPyConnection", work: Callable[[], T]) -> T:
    """Have work on a connection done; a signal meanwhile ends it."""
    with ThreadPoolExecutor(1, thread_name_prefix="lab-query") as pool:
        doing = pool.submit(work)
        try:
            return doing.result()
        except KeyboardInterrupt:
            # Again and again: what comes between two statements interrupts neither.
            while not doing.done():
                connection.interrupt()
                wait([doing], timeout=_AGAIN_S)
            raise
