import json

from labrunner.gateway.recording.bodies import keep_bytes, keep_request, put_together
from labrunner.records.facts.model_call import BodyRow

FIRST = {"role": "user", "content": "hello"}
REQUEST = {"model": "m", "stream": True, "messages": [FIRST], "tools": [{"name": "ls"}]}


def index(*rows: BodyRow) -> dict[str, BodyRow]:
    return {row.digest: row for row in rows}


def test_each_message_is_kept_once_and_requests_come_back_whole() -> None:
    later = {**REQUEST, "messages": [FIRST, {"role": "assistant", "content": "hi"}, FIRST]}
    one, two = (keep_request(json.dumps(each).encode()) for each in (REQUEST, later))
    rows = index(*one.rows, *two.rows)
    assert len(rows) == 2 + 2 + 1  # two wholes, two messages, one tool
    assert put_together(one.digest, rows) == REQUEST
    assert put_together(two.digest, rows) == later


def test_the_digest_says_nothing_of_the_order_of_fields() -> None:
    turned = dict(reversed(REQUEST.items()))
    assert (
        keep_request(json.dumps(turned).encode()).digest == keep_request(json.dumps(REQUEST).encode()).digest
    )


def test_bytes_come_back_as_they_are() -> None:
    for data in (b"data: \xc3\xa4\n\n", b"\xff\x00"):
        kept = keep_bytes(data)
        assert put_together(kept.digest, index(*kept.rows)) == data
