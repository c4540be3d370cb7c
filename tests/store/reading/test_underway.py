from pathlib import Path

import pytest

from labrunner.store.buffering.attempts import AttemptState
from labrunner.store.reading.logends import LogEnd, read_end
from labrunner.store.reading.underway import Evidence, LivePhase, gather, judge_phase, say_time

AGENT = frozenset({"setup", "agent"})


@pytest.mark.parametrize(
    ("state", "seen", "phase"),
    [
        ("dispatched", Evidence(), "preparing"),
        ("dispatched", Evidence(has_folder=True), "preparing"),
        ("dispatched", Evidence(has_folder=True, logs=frozenset({"setup"})), "setup"),
        ("dispatched", Evidence(has_folder=True, logs=AGENT), "agent"),
        ("dispatched", Evidence(has_folder=True, logs=AGENT, wrapper="barrier"), "barrier"),
        ("barrier", Evidence(has_folder=True, logs=AGENT), "barrier"),
        ("grading", Evidence(has_folder=True, logs=AGENT), "grader"),
        ("grading", Evidence(has_folder=True, logs=AGENT, is_swept=True), "collecting"),
        ("grading", Evidence(has_folder=True, logs=AGENT, wrapper="collecting"), "collecting"),
        ("dispatched", Evidence(has_folder=True, is_swept=True), "collecting"),
        ("failed", Evidence(has_folder=True, is_swept=True), "waiting"),
        ("dispatched", Evidence(is_elsewhere=True), "at its node"),
        ("barrier", Evidence(is_elsewhere=True), "barrier"),
        ("dispatched", Evidence(events=("start",)), "agent"),
        ("dispatched", Evidence(events=("start",), has_folder=True), "preparing"),
        ("dispatched", Evidence(events=("start", "model"), has_folder=True), "agent"),
        ("dispatched", Evidence(events=("start", "model", "scoring")), "grader"),
        ("dispatched", Evidence(events=("start", "scoring", "score", "end")), "collecting"),
    ],
)
def test_a_phase_is_judged_by_notes_folders_and_events(
    state: AttemptState, seen: Evidence, phase: LivePhase
) -> None:
    assert judge_phase(state, seen) == phase


def test_an_attempt_of_a_node_has_its_folder_there_until_its_files_come(tmp_path: Path) -> None:
    assert gather(tmp_path / "1", (), is_placed=True) == Evidence(is_elsewhere=True)
    (tmp_path / "1" / "logs").mkdir(parents=True)
    (tmp_path / "1" / "logs" / "agent.stdout").touch()
    assert judge_phase("dispatched", gather(tmp_path / "1", (), is_placed=True)) == "agent"


@pytest.mark.parametrize("note", [b"phase=nonsense\n", b"", b"\xff\xff", b"phase=\x1b[31m\n"])
def test_a_forged_note_says_nothing(tmp_path: Path, note: bytes) -> None:
    (tmp_path / "ctl").mkdir()
    (tmp_path / "ctl" / "phase-x").write_bytes(note)
    assert gather(tmp_path, (b"no event", b'{"event": 3}')).wrapper is None


@pytest.mark.parametrize("forged", [1e12, -1e12, 1e18, float("inf")])
def test_a_forged_time_is_none(forged: float) -> None:
    assert say_time(forged) is None
    assert say_time(0.0) == "1970-01-01T00:00:00.000Z"


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "log").symlink_to(tmp_path / "secret")
    assert read_end(tmp_path / "log") is None
    assert LogEnd(tmp_path / "log").take() == b""


def test_lines_of_a_log_are_handed_out_whole_and_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogEnd(path)
    assert log.take() == b""
    path.write_bytes(b"one\ntw")
    assert log.take() == b"one\n"
    assert log.take() == b""
    with path.open("ab") as file:
        file.write(b"o\nthree")
    assert log.take() == b"two\n"
    assert log.take_rest() == b"three"
    assert log.take_rest() == b""


def test_who_begins_late_passes_over_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\n" * 10)
    log = LogEnd(path)
    log.skip(0)
    with path.open("ab") as file:
        file.write(b"new\n")
    assert log.take() == b"new\n"
