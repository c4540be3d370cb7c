"""Bodies of calls as lines: each message once.

Rule: a request is taken apart into its messages and tools, because every request of a conversation repeats
all that was said before.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from labrunner.records.encoding import canonical
from labrunner.records.facts.model_call import PIECE, BodyRow

_MOST_PIECES: Final = 5000
"""A request with more is kept whole: taking it apart would take longer than all else."""
_LISTS: Final = ("messages", "input", "contents", "tools", "system")
"""Fields of requests whose items come again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBody:
    """A body: its digest, and the lines that hold it."""

    digest: str
    rows: tuple[BodyRow, ...]


def keep_request(sent: bytes) -> KeptBody:
    """Take a request's body apart."""
    body = canonical.decode_plain(sent)
    if not isinstance(body, dict):
        return keep_bytes(sent)
    if sum(len(items) for name in _LISTS if isinstance(items := body.get(name), list)) > _MOST_PIECES:
        whole = _keep_json(body)
        return KeptBody(digest=whole.digest, rows=(whole,))
    rows: list[BodyRow] = []
    for name in _LISTS:
        if isinstance(items := body.get(name), list):
            pieces = [_keep_json(item) for item in items]
            rows += pieces
            body[name] = [{PIECE: piece.digest} for piece in pieces]
    whole = _keep_json(body)
    return KeptBody(digest=whole.digest, rows=(*rows, whole))


def keep_bytes(data: bytes) -> KeptBody:
    """Keep bytes as they are."""
    digest = canonical.digest_bytes(data)
    try:
        row = BodyRow(schema_version="call_body_v1", digest=digest, form="text", body=data.decode())
    except UnicodeDecodeError:
        packed = base64.b64encode(data).decode()
        row = BodyRow(schema_version="call_body_v1", digest=digest, form="base64", body=packed)
    return KeptBody(digest=digest, rows=(row,))


def unpack(row: BodyRow) -> object:
    """What one line holds: bytes, or a JSON value in which parts may stand for bodies of their own."""
    match row.form:
        case "text":
            return str(row.body).encode()
        case "base64":
            return base64.b64decode(row.body)
        case "json" | "told":
            return row.body


def put_together(digest: str, rows: Mapping[str, BodyRow]) -> object:
    """A body again: a JSON value of a request, or bytes. Raises KeyError for one that is not there."""
    row = rows[digest]
    if row.form == "json":
        return {name: _join(value, rows) for name, value in row.body.items()}
    return unpack(row)


def _join(value: object, rows: Mapping[str, BodyRow]) -> object:
    if isinstance(value, list):
        return [
            rows[item[PIECE]].body if isinstance(item, dict) and item.keys() == {PIECE} else item
            for item in value
        ]
    return value


def _keep_json(value: object) -> BodyRow:
    return BodyRow(schema_version="call_body_v1", digest=canonical.digest(value), form="json", body=value)
