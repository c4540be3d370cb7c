import os
from pathlib import Path

import pytest

from labrunner.errors import DamagedRun
from labrunner.gateway.recording.bodies import keep_bytes, keep_request
from labrunner.gateway.recording.calljournal import (
    BODIES,
    CALLS,
    open_journal,
    read_bodies,
    read_calls,
    settle_calls,
)
from labrunner.gateway.recording.linefile import encode_row
from labrunner.gateway.recording.opencalls import OPEN
from labrunner.records.encoding.canonical import encode_line
from tests.kit.gateway.callrows import make_row


def test_a_call_is_read_back_with_its_bodies_each_once(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    request, answer = keep_request(b'{"messages": [1, 2, 1]}'), keep_bytes(b"data: x\n\n")
    row = make_row(request=request.digest, answer=answer.digest)
    journal.write(row, [*request.rows, *answer.rows])
    journal.write(make_row(ordinal=1, request=request.digest), request.rows)
    journal.close()
    assert list(read_calls(tmp_path)) == [row, make_row(ordinal=1, request=request.digest)]
    digests = [each.digest for each in read_bodies(tmp_path)]
    assert len(digests) == len(set(digests)) == 4


def test_what_was_written_before_is_known_after_opening_again(tmp_path: Path) -> None:
    body = keep_bytes(b"x")
    for _ in range(2):
        journal = open_journal(tmp_path)
        journal.write(make_row(ordinal=journal.take_ordinal(), answer=body.digest), body.rows)
        journal.close()
    assert [row.ordinal for row in read_calls(tmp_path)] == [0, 1]
    assert len(list(read_bodies(tmp_path))) == 1


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    journal.write(make_row(), keep_bytes(b"x").rows)
    journal.close()
    for name in (CALLS, BODIES):
        with (tmp_path / name).open("ab") as file:
            file.write(b'{"call_id": "to')
    assert len(list(read_calls(tmp_path))) == 1
    journal = open_journal(tmp_path)
    journal.write(make_row(ordinal=1), keep_bytes(b"y").rows)
    journal.close()
    assert len(list(read_calls(tmp_path))) == len(list(read_bodies(tmp_path))) == 2


def test_bodies_are_synced_before_the_row_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, synced = open_journal(tmp_path), list[str]()
    real = os.fdatasync

    def note(fd: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        real(fd)

    # The kernel can not be asked what was synced.
    monkeypatch.setattr(os, "fdatasync", note)
    journal.write(make_row(), keep_bytes(b"x").rows)
    journal.close()
    assert synced == [BODIES, CALLS]


def test_a_row_that_its_schema_refuses_is_not_written(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    with pytest.raises(ValueError, match="not a model_call_v1: attempt"):
        journal.write(make_row(attempt=0), [])
    journal.close()
    assert not (tmp_path / CALLS).exists()


def test_a_line_that_is_no_call_is_damage(tmp_path: Path) -> None:
    open_journal(tmp_path).close()
    (tmp_path / CALLS).write_text("{}\n")
    with pytest.raises(DamagedRun, match="line 1"):
        list(read_calls(tmp_path))


def test_calls_under_way_have_their_rows_once_from_whoever_comes_after_their_gateway(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    journal.begin(make_row(call_id="ended", end="cut"))
    journal.begin(make_row(call_id="lost", ordinal=1, end="cut"))
    journal.write(make_row(call_id="ended"), [])
    # Nobody closes it: its process is gone.
    again = open_journal(tmp_path)
    assert [(row.call_id, row.end) for row in read_calls(tmp_path)] == [
        ("ended", "answered"),
        ("lost", "cut"),
    ]
    assert again.take_ordinal() == 2
    assert not (tmp_path / OPEN).exists()
    assert settle_calls(tmp_path) == []


def test_where_every_call_has_ended_nothing_is_left_to_settle(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    journal.begin(make_row(end="cut"))
    assert (tmp_path / OPEN).exists()
    journal.write(make_row(), [])
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [BODIES, CALLS]


def test_what_is_no_call_under_way_is_not_made_one(tmp_path: Path) -> None:
    torn = encode_row("model_call_v1", make_row(call_id="torn"))[:-20]
    wrong = encode_line(make_row(call_id="wrong", attempt=0))
    (tmp_path / OPEN).write_bytes(b"nonsense\n" + wrong + encode_line(make_row(call_id="sound")) + torn)
    settle_calls(tmp_path)
    assert [row.call_id for row in read_calls(tmp_path)] == ["sound"]
    (tmp_path / OPEN).mkdir()
    assert settle_calls(tmp_path) == []
    assert not (tmp_path / OPEN).exists()
