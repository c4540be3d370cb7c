"""Looking for a phrase in what was said."""

import json
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.experiment.schedule import Slot
from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.store.layout import RunPaths
from labrunner.view.left.phrase import Phrase
from labrunner.view.seen.board import Board
from labrunner.view.seen.passages import MOST_FOUND, Sought, look_through
from tests.kit.made_runs import Told, make_grid, write_run

LEFT = {
    0: {"logs/agent.stdout": b"the cat \x1b[31mSat\x1b[0m on the mat\n"},
    1: {"transcript.jsonl": json.dumps({"event": "message", "message": {
        "role": "assistant", "content": "grüße <from> \"here\"",
        "tool_calls": [{"function": "bash", "arguments": {"cmd": "cat /etc/motd"}}],
    }}).encode() + b"\n"},
    2: {"logs/agent.stderr": b"nothing to see"},
}  # fmt: skip


def script(slot: Slot) -> Told | None:
    left = LEFT.get(slot.schedule_idx, {})
    logs = tuple(
        FileRef(path=path, digest=canonical.digest_bytes(data), size=len(data)) for path, data in left.items()
    )
    answers = {2: "a cat, I say", 7: "the cat that waits in the buffer"}
    return None if slot.schedule_idx == 6 else Told(logs=logs, prediction=answers.get(slot.schedule_idx))


@pytest.fixture
def board(tmp_path: Path) -> Board:
    paths = write_run(tmp_path, make_grid(), script)
    made = read(paths)
    for idx, left in LEFT.items():
        for path, data in left.items():
            target = paths.attempt(made.trial_id(made.slot(idx)), 1) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return made


def read(paths: RunPaths) -> Board:
    made = Board.of(paths)
    made.read()
    return made


def find(board: Board, text: str, first: int = 0) -> list[tuple[object, list[str], str]]:
    phrase = Phrase.of(text)
    told = look_through(Sought.of(board, phrase, first), phrase)
    hits = told["hits"]
    assert isinstance(hits, list)
    return [(hit["slot"], [each.where for each in hit["passages"]], hit["passages"][0].match) for hit in hits]


def test_a_phrase_is_found_in_terminals_conversations_and_answers(board: Board) -> None:
    assert find(board, "CAT") == [
        (0, ["terminal"], "cat"),
        (1, ["conversation"], "cat"),
        (2, ["answer"], "cat"),
        (7, ["answer"], "cat"),
    ]
    assert find(board, "cat sat on") == [(0, ["terminal"], "cat Sat on")]
    assert find(board, "nowhere at all") == []


@pytest.mark.parametrize("text", ["grüße", "GRÜSSE <", 'here"', "<from>", "cat /etc"])
def test_what_an_encoding_writes_otherwise_is_found_all_the_same(board: Board, text: str) -> None:
    assert [slot for slot, _, _ in find(board, text.replace("SS", "ß"))] == [1]


def test_a_search_goes_on_from_where_it_ended(board: Board) -> None:
    assert [slot for slot, _, _ in find(board, "cat", first=2)] == [2, 7]


def test_a_question_ends_with_a_screenful_and_says_where_to_go_on(tmp_path: Path) -> None:
    paths = write_run(tmp_path, make_grid(tasks=MOST_FOUND), lambda _: Told(prediction="found"))
    phrase, board = Phrase.of("found"), read(paths)
    told = look_through(Sought.of(board, phrase, 0), phrase)
    assert (told["looked"], told["next"], told["finished"]) == (MOST_FOUND, MOST_FOUND, 2 * MOST_FOUND)


def test_one_letter_is_too_few_to_look_for(board: Board) -> None:
    with pytest.raises(InputError, match="at least 2 letters"):
        find(board, " c ")


def test_a_link_where_a_log_should_be_is_not_followed(board: Board, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"a secret of the host")
    log = board.paths.attempt(board.trial_id(board.slot(0)), 1) / "logs/agent.stdout"
    log.unlink()
    log.symlink_to(tmp_path / "secret")
    assert find(board, "secret of the host") == []
