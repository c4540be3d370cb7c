"""Python tasks whose model's answers come from the recorded calls of another run."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labrunner.store.buffering.transcripts import read_transcripts
from labrunner.store.layout import RunPaths
from tests.kit.cli.calling import LAB, Answer, environment, lab, squeeze
from tests.kit.solve.authoring import write_task
from tests.kit.solve.chatserver import ChatServer, Refuse, Reply, Say, last_user, serving

TASK = """
import os

@tool
def double():
    async def execute(number: int) -> int:
        '''Double a number.

        Args:
            number: the number
        '''
        return 2 * number
    return execute

@solver
def talking(more: str = ""):
    async def solve(state, generate):
        state = await generate(state)
        if more:
            try:
                await get_model().generate(more)
            except Exception:
                pass
        return state
    return solve

@task
def sums(more: str = "", cost: float | None = None):
    return Task(
        dataset=[Sample(input=f"double {n}", target=str(2 * n)) for n in range(3)],
        solver=[use_tools(double()), talking(more)],
        scorer=[includes(), model_graded_qa()],
    )
"""
KEYED = {"OPENAI_API_KEY": "sk-for-the-recording"}
MODEL = ("--model", "openai/gpt-4o")


def reply(asked: dict[str, Any]) -> Reply:
    """Ask for the tool, then tell what it gave; as a judge, say that it is right."""
    if "GRADE:" in json.dumps(asked["messages"]):
        return Say(text="GRADE: C")
    if asked["messages"][-1]["role"] == "tool":
        return Say(text=f"It is {asked['messages'][-1]['content']}.")
    if last_user(asked) == "trouble":
        return Refuse(status=400)
    return Say(calls=[("double", {"number": int(last_user(asked).split()[-1])})])


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with serving(reply) as running:
        yield running


@pytest.fixture
def run(tmp_path: Path, chat: ChatServer) -> Callable[..., Answer]:
    file = write_task(tmp_path, TASK)
    without = {name: "" for name in os.environ if name.endswith("_API_KEY")}

    def go(name: str, *words: str, **env: str) -> Answer:
        place = ("--model-base-url", chat.url)
        return lab(
            "run", f"{file}@sums", *MODEL, *place, "--run-id", name, *words, cwd=tmp_path, env=without | env
        )

    return go


def find(folder: Path, name: str) -> Path:
    return folder / ".lab/runs" / name


def read_chain(run: Path) -> str:
    chain: str = json.loads((run / "status.json").read_bytes())["chain"]
    return chain


def read_calls(run: Path) -> list[dict[str, Any]]:
    paths = sorted(run.glob("trials/*/*/calls.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def read_usage(run: Path) -> list[dict[str, float]]:
    lines = (run / "facts/timings.jsonl").read_bytes().splitlines()
    return [json.loads(line)["attempts"][-1]["usage"] for line in lines]


def test_a_strict_replay_has_the_same_digest_without_key_and_provider_and_costs_nothing(
    tmp_path: Path, chat: ChatServer, run: Callable[..., Answer]
) -> None:
    recorded = run("then", **KEYED)
    assert recorded.code == 0, recorded.err
    asked = len(chat.requests)
    assert asked == 9  # for each of three: a tool, an answer, and a judge's word
    played = run("now", "--replay", "then")
    assert played.code == 0, played.err
    assert len(chat.requests) == asked
    then, now = find(tmp_path, "then"), find(tmp_path, "now")
    assert read_chain(now) == read_chain(then)
    assert [call["replayed"] for call in read_calls(now)] == [call["call_id"] for call in read_calls(then)]
    for usage in read_usage(now):
        assert (usage["requests"], usage["tokens"], usage["cost_usd"]) == (0, 0, 0.0)
        assert (usage["replayed_requests"], usage["replayed_tokens"]) == (3, 45)
        assert usage["replayed_cost_usd"] > 0
    assert "of the two runs only one counts" in squeeze(lab("show", "now", cwd=tmp_path).out)


def test_a_miss_is_an_error_though_the_solver_goes_on_and_names_what_is_asked_otherwise(
    tmp_path: Path, chat: ChatServer, run: Callable[..., Answer]
) -> None:
    assert run("then", **KEYED).code == 0
    asked = len(chat.requests)
    missed = run("now", "--replay", "then", "-T", "more=what else?", "--retry-on-error=2", "--limit", "1")
    assert missed.code == 1
    assert len(chat.requests) == asked
    row = json.loads((find(tmp_path, "now") / "facts/trials.jsonl").read_bytes().splitlines()[0])
    assert (row["outcome"], row["cause"], row["reason"], row["attempt"]) == (
        "failed",
        "replay",
        "replay_miss",
        1,
    )
    told = json.loads((find(tmp_path, "now") / "facts/timings.jsonl").read_bytes().splitlines()[0])
    assert "call 3 is not what was recorded as call 3: messages[0].content" in told["attempts"][0]["message"]


def test_what_failed_fails_again_and_is_asked_anew_where_answers_are_reused(
    tmp_path: Path, chat: ChatServer, run: Callable[..., Answer]
) -> None:
    more = ("-T", "more=trouble", "--limit", "1")
    assert run("then", *more, **KEYED).code == 0
    asked = len(chat.requests)
    assert run("strict", *more, "--replay", "then").code == 0
    assert len(chat.requests) == asked
    assert read_chain(find(tmp_path, "strict")) == read_chain(find(tmp_path, "then"))
    ends = [call["end"] for call in read_calls(find(tmp_path, "strict"))]
    assert ends == ["answered", "answered", "error", "answered"]
    reused = run("reused", *more, "--replay", "then", "--replay-mode", "reuse", **KEYED)
    assert reused.code == 0, reused.err
    assert [last_user(each) for each in chat.requests[asked:]] == ["trouble"]


def test_a_limit_of_money_ends_the_solver_where_it_did_though_nobody_tells_what_a_request_can_cost(
    tmp_path: Path, chat: ChatServer, run: Callable[..., Answer]
) -> None:
    def expensive(asked: dict[str, Any]) -> Reply:
        said = reply(asked)
        return replace(said, tokens=(10, 1500)) if isinstance(said, Say) else said  # 0.015 USD

    chat.reply = expensive
    limited = ("--cost-limit", "0.02", "--limit", "1")
    assert run("then", *limited, **KEYED).code == 0
    asked = len(chat.requests)
    played = run("now", *limited, "--replay", "then")
    assert played.code == 0, played.err
    assert len(chat.requests) == asked
    row = json.loads((find(tmp_path, "now") / "facts/trials.jsonl").read_bytes())
    assert row["ended_by"] == "cost"
    assert read_chain(find(tmp_path, "now")) == read_chain(find(tmp_path, "then"))


def test_a_recording_that_can_not_answer_is_refused_before_anything_is_run(
    tmp_path: Path, run: Callable[..., Answer]
) -> None:
    assert run("then", "--limit", "1", **KEYED).code == 0
    fewer = run("more", "--replay", "then")
    assert (fewer.code, "it is not among the finished trials of that run" in squeeze(fewer.err)) == (2, True)
    [transcript] = find(tmp_path, "then").glob("trials/*/*/transcript.jsonl")
    transcript.write_bytes(transcript.read_bytes().replace(b"It is", b"It was"))
    changed = run("changed", "--limit", "1", "--replay", "then")
    assert (changed.code, "it is not what its row says" in squeeze(changed.err)) == (2, True)


def test_a_secret_that_was_masked_in_an_answer_is_told_before_a_replay(
    tmp_path: Path, chat: ChatServer, run: Callable[..., Answer]
) -> None:
    chat.reply = lambda asked: Say(text=f"GRADE: C, and {KEYED['OPENAI_API_KEY']}")
    assert run("then", "--limit", "1", **KEYED).code == 0
    played = run("now", "--limit", "1", "--replay", "then")
    assert (played.code, "is not kept whole" in squeeze(played.err)) == (2, True)


def test_an_attempt_that_was_cut_off_hears_again_what_it_heard(
    tmp_path: Path, chat: ChatServer, run: Callable[..., Answer]
) -> None:
    came = threading.Event()

    def hold(asked: dict[str, Any]) -> Reply:
        if "GRADE:" not in json.dumps(asked["messages"]):
            return reply(asked)
        came.set()
        return "hang"

    chat.reply = hold
    words = [LAB, "run", str(tmp_path / "task.py@sums"), *MODEL, "--model-base-url", chat.url]
    cut = subprocess.Popen(
        [*words, "--limit", "1", "--run-id", "then"],
        cwd=tmp_path,
        env=environment(**KEYED),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert came.wait(60)
    buffer, deadline = RunPaths(find(tmp_path, "then")).buffer, time.monotonic() + 30
    while str(read_transcripts(buffer)).count('"event":"model"') < 2:  # what was said is stored with a delay
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cut.kill()
    cut.wait()
    assert len(chat.requests) == 3
    chat.reply = reply
    again = ("--replay", "then", "--replay-mode", "reuse")
    went_on = lab("continue", "then", *again, cwd=tmp_path, env=KEYED)
    assert went_on.code == 0, went_on.err
    assert len(chat.requests) == 4  # only its judge is asked again
    [usage] = read_usage(find(tmp_path, "then"))
    assert (usage["requests"], usage["replayed_requests"]) == (1, 2)
