"""Conversations of any dialect, put together from what the real gateway recorded."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from labrunner.gateway.recording.calljournal import read_bodies, read_calls
from labrunner.gateway.telling.call_events import tell_calls
from labrunner.records.facts.transcript_events import follow_conversations, known_messages, read_conversation
from tests.kit.gateway.callrows import IDS
from tests.kit.gateway.provider import Behaviour, Fail
from tests.kit.gateway.talking import Say, chat, talk, user

LS = {"id": "a", "function": "ls", "arguments": {"p": "/"}}
CAT = {"id": "b", "function": "cat", "arguments": {}}
SYSTEM = {"role": "system", "content": "be good"}
ASKED = {"role": "user", "content": "look"}
LISTED = {"role": "tool", "content": "a.txt", "tool_call_id": "a", "function": "ls"}
FAILED = {"role": "tool", "content": "no such file", "tool_call_id": "b", "function": "cat"}
PICTURE = "iVBORw0KGgo" * 100


def answer(model: str, *, thinks: bool = True) -> dict[str, Any]:
    told = {"role": "assistant", "content": "Hello, wörld", "model": model, "tool_calls": [LS, CAT]}
    return told | ({"reasoning": "hm"} if thinks else {})


OPENAI_ANSWER = {
    "role": "assistant",
    "content": "Hello, wörld",
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{ "p": "/" }'}},
        {"id": "b", "type": "function", "function": {"name": "cat", "arguments": ""}},
    ],
}
TALKS: dict[str, tuple[list[Say], dict[str, Any], dict[str, Any]]] = {
    "openai_chat": (
        [
            chat(SYSTEM, ASKED, stream=True, temperature=0.5),
            chat(
                SYSTEM,
                ASKED,
                OPENAI_ANSWER,
                {"role": "tool", "tool_call_id": "a", "content": "a.txt"},
                {"role": "tool", "tool_call_id": "b", "content": "no such file"},
            ),
        ],
        answer("gpt-4o-2024-08-06", thinks=False),
        FAILED,
    ),
    "openai_responses": (
        [
            Say(
                path="/openai/v1/responses",
                body={"model": "m", "instructions": "be good", "input": "look", "temperature": 0.5},
            ),
            Say(
                path="/openai/v1/responses",
                body={
                    "model": "m",
                    "stream": True,
                    "instructions": "be good",
                    "input": [
                        {"role": "user", "content": [{"type": "input_text", "text": "look"}]},
                        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
                        {
                            "type": "message",
                            "role": "assistant",
                            "content": [{"type": "output_text", "text": "Hello, wörld"}],
                        },
                        {"type": "function_call", "call_id": "a", "name": "ls", "arguments": '{"p":"/"}'},
                        {"type": "function_call", "call_id": "b", "name": "cat", "arguments": "{}"},
                        {"type": "function_call_output", "call_id": "a", "output": "a.txt"},
                        {
                            "type": "function_call_output",
                            "call_id": "b",
                            "output": [{"type": "input_text", "text": "no such file"}],
                        },
                    ],
                },
            ),
        ],
        answer("gpt-5-2025-08-07"),
        FAILED,
    ),
    "anthropic": (
        [
            Say(
                path="/anthropic/v1/messages",
                body={
                    "model": "m",
                    "max_tokens": 9,
                    "temperature": 0.5,
                    "stream": True,
                    "system": [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}],
                    "messages": [ASKED],
                },
            ),
            Say(
                path="/anthropic/v1/messages",
                body={
                    "model": "m",
                    "max_tokens": 9,
                    "system": "be good",
                    "messages": [
                        {"role": "user", "content": [{"type": "text", "text": "look"}]},
                        {
                            "role": "assistant",
                            "content": [
                                {"type": "thinking", "thinking": "hm", "signature": "s"},
                                {"type": "text", "text": "Hello, wörld"},
                                {"type": "tool_use", "id": "a", "name": "ls", "input": {"p": "/"}},
                                {"type": "tool_use", "id": "b", "name": "cat", "input": {}},
                            ],
                        },
                        {
                            "role": "user",
                            "content": [
                                {"type": "tool_result", "tool_use_id": "a", "content": "a.txt"},
                                {
                                    "type": "tool_result",
                                    "tool_use_id": "b",
                                    "is_error": True,
                                    "content": [{"type": "text", "text": "no such file"}],
                                },
                            ],
                        },
                    ],
                },
            ),
        ],
        answer("claude-sonnet-4-20250514"),
        {**FAILED, "content": "", "error": {"type": "tool", "message": "no such file"}},
    ),
    "gemini": (
        [
            Say(
                path="/gemini/v1beta/models/m:streamGenerateContent",
                body={
                    "systemInstruction": {"parts": [{"text": "be good"}]},
                    "generationConfig": {"temperature": 0.5},
                    "contents": [{"role": "user", "parts": [{"text": "look"}]}],
                },
            ),
            Say(
                path="/gemini/v1beta/models/m:generateContent",
                body={
                    "systemInstruction": {"parts": [{"text": "be good"}]},
                    "contents": [
                        {"role": "user", "parts": [{"text": "look"}]},
                        {
                            "role": "model",
                            "parts": [
                                {"text": "Hello, wörld"},
                                {"functionCall": {"id": "a", "name": "ls", "args": {"p": "/"}}},
                                {"functionCall": {"id": "b", "name": "cat", "args": {}}},
                            ],
                        },
                        {
                            "role": "user",
                            "parts": [
                                {
                                    "functionResponse": {
                                        "id": "a",
                                        "name": "ls",
                                        "response": {"output": "a.txt"},
                                    }
                                },
                                {
                                    "functionResponse": {
                                        "id": "b",
                                        "name": "cat",
                                        "response": {"result": "no such file"},
                                    }
                                },
                            ],
                        },
                    ],
                },
            ),
        ],
        answer("gemini-2.5-flash"),
        FAILED,
    ),
}


async def tell(folder: Path, said: list[Say], plan: list[Behaviour] | None = None) -> list[dict[str, Any]]:
    await talk(folder, said, plan=plan or (), ids=IDS)
    calls = sorted(read_calls(folder), key=lambda call: call.ordinal)
    return list(tell_calls(calls, {row.digest: row for row in read_bodies(folder)}))


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]


@pytest.mark.parametrize("protocol", TALKS)
async def test_a_conversation_is_told_once_whatever_its_dialect(protocol: str, tmp_path: Path) -> None:
    said, answered, failed = TALKS[protocol]
    events = await tell(tmp_path, said)
    assert [event["message"] for event in of_kind(events, "message")] == [
        SYSTEM,
        ASKED,
        answered,
        LISTED,
        failed,
    ]
    first, second = of_kind(events, "model")
    assert (first["input"], first["output"]) == ([[0, 1]], 2)
    assert (second["after"], second["input"], second["output"]) == (3, [[3, 4]], 2)
    assert (first["thread"], second["thread"]) == (0, 0)
    assert first["config"]["temperature"] == 0.5
    assert first["stop_reason"] == "tool_calls"
    assert [event["seq"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("protocol", TALKS)
async def test_each_call_tells_what_it_used(protocol: str, tmp_path: Path) -> None:
    await talk(tmp_path, TALKS[protocol][0], plan=(), ids=IDS)
    began, ended = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.500Z"
    calls = [msgspec.structs.replace(call, started_at=began, ended_at=ended) for call in read_calls(tmp_path)]
    told = of_kind(list(tell_calls(calls, {row.digest: row for row in read_bodies(tmp_path)})), "model")
    assert told
    for event in told:
        assert event["usage"]["input_tokens"] == 120
        assert event["usage"]["output_tokens"] == 30
        assert event["usage"]["cost_usd"] == pytest.approx(0.00042)
        assert event["seconds"] == 1.5


async def test_an_earlier_answer_that_the_provider_keeps_is_gone_on_from(tmp_path: Path) -> None:
    path = "/openai/v1/responses"
    more = {"model": "m", "previous_response_id": "resp_1", "input": "and now?"}
    events = await tell(
        tmp_path, [Say(path=path, body={"model": "m", "input": "look"}), Say(path=path, body=more)]
    )
    talked = [(event["thread"], list(spoken)) for event, spoken in follow_conversations(events)]
    assert talked == [(0, [0]), (0, [0, 1, 2])]


async def test_requests_that_go_on_from_nothing_are_conversations_of_their_own(tmp_path: Path) -> None:
    helper = [{"role": "system", "content": "you help"}, user("find it")]
    done = {"role": "tool", "tool_call_id": "a", "content": "found"}
    events = await tell(
        tmp_path,
        [
            chat(user("a title, please")),
            chat(SYSTEM, user("do it")),
            chat(*helper),
            chat(*helper, OPENAI_ANSWER, {**done, "content": "half"}),
            chat(SYSTEM, user("do it"), OPENAI_ANSWER, done),
        ],
    )
    calls = of_kind(events, "model")
    # The kit's model always asks for tools, so that the first conversation waits when the second begins.
    assert [(call["thread"], call.get("parent")) for call in calls] == [
        (0, None),
        (1, 0),
        (2, 1),
        (2, 1),
        (1, 0),
    ]
    assert [message["content"] for message in read_conversation(events)] == [
        "be good",
        "do it",
        "Hello, wörld",
        "found",
        "Hello, wörld",
    ]


async def test_a_history_that_the_client_edits_is_the_same_conversation(tmp_path: Path) -> None:
    said = OPENAI_ANSWER
    told = {"role": "tool", "tool_call_id": "a", "content": "a.txt"}
    events = await tell(
        tmp_path,
        [
            chat(SYSTEM, user("look, and mind the date")),
            chat(SYSTEM, user("look"), said, told),
            chat(SYSTEM, user("look"), {**said, "content": "Hello, wörld  "}, told, said, user("so?")),
        ],
    )
    assert [call["thread"] for call in of_kind(events, "model")] == [0, 0, 0]


async def test_another_continuation_of_the_same_beginning_branches_off(tmp_path: Path) -> None:
    events = await tell(tmp_path, [chat(user("look"), user("up")), chat(user("look"), user("down"))])
    assert [(call["thread"], call.get("parent")) for call in of_kind(events, "model")] == [(0, None), (1, 0)]


async def test_trouble_of_the_provider_stands_in_its_place(tmp_path: Path) -> None:
    events = await tell(
        tmp_path,
        [chat(user("look")), chat(user("look")), chat(user("look"), stream=True)],
        [Fail(status=429, retry_after="0"), "answer", Fail(status=400, kind="bad_request"), "cut"],
    )
    kinds = [event["event"] for event in events]
    assert kinds == ["message", "retry", "message", "model", "model", "message", "model"]
    assert events[1]["reason"] == "http_429"
    failed, cut = events[4], events[6]
    assert "output" not in failed
    assert failed["error"]["end"] == "error"
    assert (failed["error"]["kind"], failed["error"]["status"]) == ("bad_request", 400)
    assert cut["error"]["end"] == "cut"
    assert events[5]["message"]["content"].startswith("Hello")
    assert cut["usage"]["basis"] == "counted"
    assert [list(spoken) for _, spoken in follow_conversations(events)] == [[0], [0], [0]]


async def test_pictures_and_files_are_notes(tmp_path: Path) -> None:
    inline = f"data:image/png;base64,{PICTURE}"
    shown = {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}]}
    events = await tell(
        tmp_path,
        [
            chat(
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "see"},
                        {"type": "image_url", "image_url": {"url": inline}},
                    ],
                }
            ),
            Say(
                path="/gemini/v1beta/models/m:generateContent",
                body={"contents": [shown]},
            ),
        ],
    )
    texts = [message["content"] for message in known_messages(events).values() if message["role"] == "user"]
    assert texts[0].startswith("see\n[image_url: image/png, about ")
    assert texts[1].startswith("[media: image/png, about ")
    assert PICTURE not in str(events)


async def test_calls_that_say_nothing_are_left_out_and_declined_ones_are_told(tmp_path: Path) -> None:
    counting = Say(path="/anthropic/v1/messages/count_tokens", body={"model": "m", "messages": [ASKED]})
    events = await tell(tmp_path, [counting, Say(path="/openai/v1/files", body={})])
    (declined,) = events
    assert declined["event"] == "model"
    assert declined["error"]["end"] == "declined"
    assert declined["input"] == []


async def test_what_is_not_kept_is_said_in_its_place(tmp_path: Path) -> None:
    await talk(tmp_path, [chat(user("look"))], ids=IDS)
    events = list(tell_calls(read_calls(tmp_path), {}))
    texts = [event["message"]["content"] for event in of_kind(events, "message")]
    assert texts == ["[what was said is not kept]"] * 2
    assert of_kind(events, "model")[0]["usage"]["total_tokens"] == 150
