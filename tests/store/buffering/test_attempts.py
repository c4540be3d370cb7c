import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from labrunner.store.buffering.attempts import AttemptBook, AttemptNote
from labrunner.store.buffering.buffer import Changes, create_buffer, open_buffer, read_live


def note(token: str, idx: int = 0) -> AttemptNote:
    return AttemptNote(token=token, schedule_idx=idx, trial_id="t", attempt=1)


def test_a_note_taken_back_before_it_was_stored_costs_nothing() -> None:
    book = AttemptBook()
    book.dispatch(note("a"))
    book.forget(0)
    assert not book.has_changes
    assert book.take_changes() == ([], [])


def test_a_stored_note_is_removed_when_its_slot_is_final() -> None:
    book = AttemptBook()
    book.dispatch(note("a"))
    assert book.take_changes() == ([note("a")], [])
    book.forget(0)
    assert book.take_changes() == ([], ["a"])
    assert not book.has_changes


def test_every_attempt_of_a_final_slot_is_dropped_and_no_other() -> None:
    book = AttemptBook([note("a", 0), note("b", 0), note("c", 1)])
    book.forget(0)
    stored, gone = book.take_changes()
    assert (stored, sorted(gone)) == ([], ["a", "b"])
    assert book.notes() == (note("c", 1),)


def test_barrier_and_grader_are_kept_with_the_note() -> None:
    book = AttemptBook([note("a")])
    book.hold_barrier("a", b"{}")
    book.start_grader("a")
    (stored,), _ = book.take_changes()
    assert (stored.state, stored.barrier, stored.grader_started) == ("grading", b"{}", True)


def test_how_an_agent_ended_and_how_an_attempt_failed_are_told_apart_by_the_buffer(tmp_path: Path) -> None:
    create_buffer(tmp_path / "buffer.sqlite")
    book, buffer = AttemptBook([note("ended"), note("failed")]), open_buffer(tmp_path / "buffer.sqlite")
    book.hold_barrier("ended", b"ended")
    book.hold_barrier("failed", b"ended")
    book.hold_failure("failed", b"completion")
    stored, _ = book.take_changes()
    buffer.write(Changes(attempts=stored), synced=False)
    buffer.close()

    notes, _ = read_live(tmp_path / "buffer.sqlite")

    assert {each.token: (each.state, each.barrier, each.failure) for each in notes} == {
        "ended": ("barrier", b"ended", None),
        "failed": ("failed", None, b"completion"),
    }


def test_which_node_has_an_attempt_is_kept_until_its_slot_is_final(tmp_path: Path) -> None:
    create_buffer(tmp_path / "buffer.sqlite")
    book, buffer = AttemptBook([note("a", 0), note("b", 1)]), open_buffer(tmp_path / "buffer.sqlite")
    book.place("a", "gpu-3/4f1c09ab")
    book.hold_barrier("a", b"{}")
    book.hold_barrier("b", b"{}")
    buffer.write(Changes(attempts=book.take_changes()[0]), synced=False)
    told = {each.token: each.node for each in read_live(tmp_path / "buffer.sqlite")[0]}
    assert told == {"a": "gpu-3/4f1c09ab", "b": None}

    buffer.write(Changes(gone_tokens=["a"]), synced=False)
    buffer.close()
    assert _nodes(tmp_path / "buffer.sqlite") == []


def test_a_buffer_of_before_there_were_nodes_is_read_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "buffer.sqlite"
    create_buffer(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO attempts VALUES ('a', 0, 't', 1, 'dispatched', NULL, 0)")
        connection.execute("DROP TABLE nodes")
        connection.commit()
    assert read_live(path)[0] == [note("a")]

    buffer = open_buffer(path)
    placed = msgspec.structs.replace(note("a"), node="gpu-3/4f1c09ab")
    buffer.write(Changes(attempts=[placed]), synced=False)
    buffer.close()
    assert read_live(path)[0] == [placed]


def _nodes(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.execute("SELECT token, node FROM nodes"))


def test_an_unknown_token_is_refused() -> None:
    with pytest.raises(ValueError, match="no attempt with token x"):
        AttemptBook().start_grader("x")
