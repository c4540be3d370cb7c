"""SQL over one run or several, as `lab query` answers it, for a page: the first rows of it.

Rule: one question at a time: each may use as much of the machine as it needs.
"""

from collections.abc import Sequence
from decimal import Decimal
from itertools import islice
from math import isfinite
from threading import Lock
from typing import Final

from labrunner.query.database import ask
from labrunner.query.formats import to_text
from labrunner.query.views import VIEWS
from labrunner.view.seen.lookout import Lookout

MOST_ANSWERED: Final = 500
MOST_EXACT: Final = 2**53
"""Numbers beyond this lose digits in a browser: they are told as text."""
_lock: Final = Lock()


def answer_sql(lookout: Lookout, names: Sequence[str], sql: str) -> dict[str, object]:
    """What a SELECT finds in runs, by their folders' names. Raises InputError for SQL that can't be used."""
    runs = [lookout.find(name) for name in names]
    with _lock, ask(runs, sql) as answer:
        columns, types = answer.columns, answer.types
        rows = list(islice(answer.rows(), MOST_ANSWERED + 1))
    return {
        "columns": columns,
        "types": types,
        "rows": [[_plain(value) for value in row] for row in rows[:MOST_ANSWERED]],
        "has_more": len(rows) > MOST_ANSWERED,
        "tables": list(VIEWS),
    }


def _plain(value: object) -> object:
    match value:
        case None | bool() | str():
            return value
        case int() if abs(value) <= MOST_EXACT:
            return value
        case float() | Decimal():
            return float(value) if isfinite(value) else str(value)
        case _:
            return to_text(value)
