"""Messages that agents leave among their events, in the shapes that they come in."""

import json
from typing import Any

import pytest

from labrunner.interop.exporters.chat import find_messages

CALL = {"id": "c1", "function": "bash", "arguments": {"cmd": "ls"}, "type": "function"}


def read(event: object) -> list[dict[str, Any]]:
    return list(find_messages(event))


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"cmd": "ls"}'}},
        {"id": "c1", "function": {"name": "bash", "arguments": {"cmd": "ls"}}},
        {"id": "c1", "function": "bash", "arguments": {"cmd": "ls"}},
        {"id": "c1", "name": "bash", "arguments": '{"cmd": "ls"}'},
    ],
)
def test_calls_of_tools_arrive_whichever_way_they_are_written(call: dict[str, Any]) -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert read(asked) == [{"role": "assistant", "content": "", "source": "generate", "tool_calls": [CALL]}]
    assert read({"type": "step", "message": asked}) == read(asked)


def test_a_message_without_content_is_not_dropped() -> None:
    assert read({"role": "assistant", "tool_calls": []}) == [
        {"role": "assistant", "content": "", "source": "generate"}
    ]
    assert read({"role": "user", "content": None}) == [{"role": "user", "content": ""}]


def test_parts_become_text_and_what_has_none_its_kind() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}, "there"]
    assert read({"role": "user", "content": parts}) == [
        {"role": "user", "content": "see\n[image_url]\nthere"}
    ]


def test_calls_and_results_among_the_parts_are_found() -> None:
    asked = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "let me see"},
            {"type": "tool_use", "id": "c1", "name": "bash", "input": {"cmd": "ls"}},
        ],
    }
    answered = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.txt"}]}
        ],
    }
    assert read({"type": "assistant", "message": asked}) == [
        {"role": "assistant", "content": "let me see", "source": "generate", "tool_calls": [CALL]}
    ]
    assert read({"type": "user", "message": answered}) == [
        {"role": "tool", "content": "a.txt", "tool_call_id": "c1"}
    ]


def test_what_tools_answered_keeps_their_names() -> None:
    event = {"role": "tool", "tool_call_id": "c1", "name": "bash", "content": "a.txt"}
    assert read(event) == [{"role": "tool", "content": "a.txt", "tool_call_id": "c1", "function": "bash"}]


def test_arguments_that_are_no_json_are_kept_and_said_to_be_none() -> None:
    call = {"id": "c1", "function": {"name": "bash", "arguments": "ls {"}}
    (found,) = read({"role": "assistant", "content": "", "tool_calls": [call]})[0]["tool_calls"]
    assert found["arguments"] == {"arguments": "ls {"}
    assert "no JSON" in found["parse_error"]


def test_other_events_are_no_messages() -> None:
    for event in ({"type": "step"}, {"role": "narrator", "content": "x"}, {"role": "user"}, "text", 3, None):
        assert read(event) == []


def test_the_real_package_reads_them() -> None:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageTool

    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps({"cmd": "ls"})},
    }
    (asked,) = read({"role": "assistant", "content": None, "tool_calls": [call]})
    (told,) = read({"role": "tool", "tool_call_id": "c1", "content": "x"})
    message = ChatMessageAssistant.model_validate(asked)
    assert message.tool_calls is not None
    assert message.tool_calls[0].arguments == {"cmd": "ls"}
    assert ChatMessageTool.model_validate(told).tool_call_id == "c1"
