import json
from pathlib import Path

import pytest

from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.store.buffering.attempts import AttemptNote
from labrunner.store.buffering.buffer import Changes, Event, open_buffer
from labrunner.store.layout import RunPaths
from labrunner.store.reading.events import EventRow, read_attempt_events, read_events
from tests.kit.made_runs import Told, make_grid, write_run

LOG = FileRef(path="state/events.jsonl", digest="sha256:" + "0" * 64, size=1)


def made(tmp_path: Path) -> RunPaths:
    return write_run(
        tmp_path,
        make_grid(tasks=2, variants=("a",)),
        lambda slot: Told(logs=(LOG,)) if slot.task_idx == 0 else None,
    )


def leave(paths: RunPaths, trial_id: str, attempt: int, data: bytes) -> Path:
    state = paths.attempt(trial_id, attempt) / "state"
    state.mkdir(parents=True)
    (state / "events.jsonl").write_bytes(data)
    return state.parent


def first_trial(paths: RunPaths) -> str:
    return str(json.loads(paths.trials.read_bytes().splitlines()[0])["ids"]["trial_id"])


def plain(rows: list[EventRow]) -> list[tuple[int, int, object]]:
    return [(row.attempt, row.seq, canonical.decode_plain(bytes(row.event))) for row in rows]


def test_events_of_finished_attempts_come_in_order_and_text_stays_text(tmp_path: Path) -> None:
    paths = made(tmp_path)
    leave(paths, first_trial(paths), 1, b'{"type": "step"}\n\nno json \xff\n{"type": "end"}\n')
    assert plain(list(read_events(paths))) == [
        (1, 0, {"type": "step"}),
        (1, 1, "no json \ufffd"),
        (1, 2, {"type": "end"}),
    ]


def test_a_line_still_being_written_is_left_for_the_next_reader(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    (folder / "state").mkdir(parents=True)
    (folder / "state" / "events.jsonl").write_bytes(b'{"n": 1}\n{"n": 2')
    assert [bytes(event) for event in read_attempt_events(folder)] == [b'{"n": 1}']


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"secret": true}\n')
    state = tmp_path / "attempt" / "state"
    state.mkdir(parents=True)
    (state / "events.jsonl").symlink_to(secret)
    assert list(read_attempt_events(state.parent)) == []


def test_events_of_trials_under_way_come_from_their_file_and_from_the_buffer(tmp_path: Path) -> None:
    paths = made(tmp_path)
    buffer = open_buffer(paths.buffer)
    note = AttemptNote(
        token="t",
        schedule_idx=1,
        trial_id="live",
        attempt=2,
        state="dispatched",
        barrier=None,
        grader_started=False,
    )
    streamed = Event(trial_id="python", attempt=1, seq=4, json=b'{"event": "message"}')
    buffer.write(Changes(attempts=[note], events=[streamed]), synced=False)
    buffer.close()
    leave(paths, "live", 2, b'{"n": 1}\n{"n": ')
    found = {(row.trial_id, row.attempt, row.seq): bytes(row.event) for row in read_events(paths)}
    assert found == {("live", 2, 0): b'{"n": 1}', ("python", 1, 4): b'{"event": "message"}'}


@pytest.mark.parametrize("data", [b"", b"\n\n"])
def test_no_events_are_none(tmp_path: Path, data: bytes) -> None:
    folder = tmp_path / "attempt"
    (folder / "state").mkdir(parents=True)
    (folder / "state" / "events.jsonl").write_bytes(data)
    assert list(read_attempt_events(folder)) == []
