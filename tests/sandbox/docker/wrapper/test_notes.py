import os
from collections.abc import Callable
from pathlib import Path

import pytest

from labrunner.sandbox.docker.wrapper.notes import phase_end, read_note

NONCE = "n" * 32
CERTAIN = "phase=barrier\nat=12.5\nagent=137\nagent_late=1\nagent_oom=\nagent_began=1.0\nagent_ended=3.5\n"


def test_the_wrappers_own_note_is_certain(tmp_path: Path) -> None:
    (tmp_path / "phase").write_text("phase=agent\n")
    (tmp_path / f"phase-{NONCE}").write_text(CERTAIN)
    note = read_note(tmp_path, NONCE)
    assert (note.phase, note.is_certain) == ("barrier", True)
    end = phase_end(note, "agent")
    assert end is not None
    assert (end.exit_status, end.timed_out, end.oom_killed, end.seconds) == (None, True, False, 2.5)


@pytest.mark.parametrize("phase", ["barrier", "grader", "graded", "failed", "what"])
def test_a_forged_note_never_says_more_than_an_opening(tmp_path: Path, phase: str) -> None:
    (tmp_path / "phase").write_text(f"phase={phase}\nagent=0\n")
    (tmp_path / ("phase-" + "0" * 32)).write_text(CERTAIN)
    note = read_note(tmp_path, NONCE)
    assert (note.phase, note.is_certain) == ("none", False)


@pytest.mark.parametrize("kind", ["missing", "folder", "link", "fifo", "noise", "huge"])
def test_whatever_lies_in_a_notes_place_is_no_note(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "phase"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("phase=agent\n")
    make: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "folder": path.mkdir,
        "link": lambda: path.symlink_to(elsewhere),
        "fifo": lambda: os.mkfifo(path),
        "noise": lambda: path.write_bytes(os.urandom(300)),
        "huge": lambda: path.write_bytes(b"x" * 1_000_000),
    }
    make[kind]()
    assert read_note(tmp_path, NONCE).phase == "none"


@pytest.mark.parametrize("status", ["", "x", "-1", "9" * 30])
def test_a_status_that_is_no_number_is_none(tmp_path: Path, status: str) -> None:
    (tmp_path / f"phase-{NONCE}").write_text(f"phase=barrier\nagent={status}\n")
    assert phase_end(read_note(tmp_path, NONCE), "agent") is None
