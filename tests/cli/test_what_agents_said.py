"""What `lab` tells of agents that talked to models: conversations, live and finished, and damage to them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from labrunner.records.encoding.ids import Ids
from labrunner.store.layout import RunPaths
from tests.kit.cli.calling import lab
from tests.kit.cli.live import TRIAL, following, read_line, running, write_waiting
from tests.kit.gateway.provider import Fail
from tests.kit.gateway.talking import FIRST, LAST, Talked, chat, talk, user, write_talked_run

SYSTEM = {"role": "system", "content": "be good"}
ANSWER = {
    "role": "assistant",
    "content": "Hello, wörld",
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"p":"/"}'}},
        {"id": "b", "type": "function", "function": {"name": "cat", "arguments": "{}"}},
    ],
}
LISTED = {"role": "tool", "tool_call_id": "a", "content": "\x1b[2Ja.txt"}
TALKED = Talked(
    said=[chat(SYSTEM, user("look"), stream=True), chat(SYSTEM, user("look"), ANSWER, LISTED)],
    plan=["answer", Fail(status=500), "answer"],
)


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    long = Talked(said=[chat(*(user(f"number {each}") for each in range(60)))])
    return write_talked_run(tmp_path / "runs", {FIRST: TALKED, LAST: long})


def show(paths: RunPaths, *words: str) -> str:
    shown = lab("show", paths.root, *words, cwd=paths.root.parent)
    assert shown.code == 0, shown
    return shown.out


def test_a_trial_of_any_agent_shows_its_conversation(paths: RunPaths) -> None:
    told = show(paths, FIRST)
    lines = told[told.index("conversation:") :].splitlines()
    assert [" ".join(line.split()).partition(", 0.")[0] for line in lines[1:15]] == [
        "system be good",
        "user look",
        "assistant Hello, wörld",
        "assistant calls ls(p='/')",
        "assistant calls cat()",
        "call openai/m, 120 tokens in (100 from the cache), 30 out (12 reasoning), $0.00042",
        "tool ls \\x1b[2Ja.txt",
        "retry slow down; waited 0.0 s",
        "assistant Hello, wörld",
        "assistant calls ls(p='/')",
        "assistant calls cat()",
        "call openai/m, 120 tokens in (100 from the cache), 30 out (12 reasoning), $0.00042",
        "in all: 2 calls, 240 tokens in, 60 out, $0.00084",
        "",
    ]
    assert "calls.jsonl:" not in told
    assert "\x1b" not in told


def test_a_long_one_says_what_to_type_for_all_of_it(paths: RunPaths) -> None:
    told = show(paths, LAST)
    assert "number 0\n" in told
    assert "number 20\n" not in told
    assert f"lab show {paths.root} {LAST} --whole" in " ".join(told.split())
    whole = show(paths, LAST, "--whole")
    assert all(f"number {each}\n" in whole for each in range(60))
    assert "left out" not in whole


def test_programs_get_the_transcript_when_they_ask_for_all(paths: RunPaths) -> None:
    rows = lab("show", paths.root, FIRST, "--json", cwd=paths.root.parent).json()
    assert "transcript" not in rows
    told = lab("show", paths.root, FIRST, "--json", "--whole", cwd=paths.root.parent).json()["transcript"]
    assert [event["event"] for event in told] == [
        "message",
        "message",
        "message",
        "model",
        "message",
        "retry",
        "model",
    ]


DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "edited": lambda path: path.write_bytes(path.read_bytes().replace(b"schema", b"schemo", 1)),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "emptied": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", ["calls.jsonl", "bodies.jsonl"])
def test_damage_to_what_was_recorded_is_told(paths: RunPaths, name: str, how: str) -> None:
    runs = paths.root.parent
    assert lab("verify", paths.root, cwd=runs).code == 0
    DAMAGE[how](paths.attempt(FIRST, 1) / name)
    verified = lab("verify", paths.root, cwd=runs)
    assert (verified.code, f"wrong: trials/{FIRST}/1/{name}" in verified.out) == (3, True), verified
    shown = lab("show", paths.root, FIRST, cwd=runs)
    assert (shown.code, name in shown.err, "lab verify" in shown.err) == (3, True, True), shown
    assert lab("show", paths.root, LAST, cwd=runs).code == 0
    assert lab("show", paths.root, cwd=runs).code == 0


def test_a_running_trial_shows_its_conversation_as_it_grows(tmp_path: Path) -> None:
    folder = write_waiting(tmp_path / "e", sandbox="process")
    with running(folder) as run:
        run.await_phase("setup")
        run.go("setup")
        run.await_phase("agent")
        ids = Ids(run_id="r", trial_id=TRIAL, variant_id="baseline", task_id="t0", repl_idx=0)
        attempt = run.paths.attempt(TRIAL, 1)
        asyncio.run(talk(attempt, [chat(user("the first word"))], ids=ids))
        shown = lab("show", "r", TRIAL, cwd=folder)
        assert "the first word" in shown.out
        assert "in all: 1 call, 120 tokens in, 30 out, $0.00042" in shown.out
        with following(folder, "r", TRIAL) as seen:
            while "in all: 1 call" not in read_line(seen):
                pass
            asyncio.run(talk(attempt, [chat(user("the second word"))], ids=ids))
            followed = [read_line(seen)]
            while not followed[-1].startswith("[2] call: "):
                assert followed[-1], "it ended before the second call was told"
                followed.append(read_line(seen))
            for phase in ("agent", "grader"):
                run.await_phase(phase)
                run.go(phase)
            run.end()
            out = seen.communicate(timeout=60)[0]
    assert [line.partition(" (100")[0].rstrip() for line in followed] == [
        "[2] user: the second word",
        "[2] assistant: Hello, wörld",
        "[2] assistant calls: ls(p='/')",
        "[2] assistant calls: cat()",
        "[2] call: openai/m, 120 tokens in",
    ]
    assert "in all: 2 calls, 240 tokens in" in out
    found = lab("query", "r", "select count(*) as n from calls", "--json", cwd=folder).json()
    assert found == [{"n": 2}]
    assert lab("verify", "r", cwd=folder).code == 0
