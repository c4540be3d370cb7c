"""What was said in an attempt, a page at a time."""

import json

from labrunner.view.left.conversing import LONGEST, MOST_ENTRIES, decode, page_of

EVENTS = (
    {"event": "start", "sample": "t0"},
    {
        "event": "message",
        "thread": 1,
        "message": {"role": "assistant", "content": "so", "tool_calls": "none"},
    },
    {"event": "model", "model": "mock/echo", "seconds": 0.5, "usage": {"input_tokens": 3}, "input": [[0, 1]]},
    {"event": "message", "message": {"role": "tool", "function": "bash", "error": {"type": "timeout"}}},
    {"event": "score", "scorer": "exact", "value": {"a": 1}, "explanation": "as asked"},
    {"event": "limit", "message": "enough"},
    {"role": "user", "content": ["an", "agent's own"]},
)


def told(*events: object, offset: int = 0) -> list[dict[str, object]]:
    lines = iter([json.dumps(event).encode() for event in events])
    entries = page_of(decode(lines), offset)["entries"]
    assert isinstance(entries, list)
    return entries


def test_messages_models_scores_and_trouble_are_told_and_what_is_for_programs_is_not() -> None:
    said, model, tool, score, limit, own = told(*EVENTS)
    assert (said["role"], said["text"], said["calls"], said["thread"]) == ("assistant", "so", [], 1)
    assert (model["model"], model["seconds"], model["usage"]) == ("mock/echo", 0.5, {"input_tokens": 3})
    assert (tool["name"], tool["text"]) == ("bash", "")
    assert "timeout" in str(tool["trouble"])
    assert str(score["text"]).endswith("as asked")
    assert (limit["kind"], limit["text"]) == ("limit", "enough")
    assert json.loads(str(own["text"])) == ["an", "agent's own"]


def test_a_long_text_is_cut_with_a_mark_and_a_long_conversation_into_pages() -> None:
    long = {"event": "message", "message": {"role": "user", "content": "x" * (LONGEST + 1234)}}
    (entry,) = told(long)
    assert str(entry["text"]).endswith("(1,234 more characters)")
    many = [{"event": "limit", "message": str(number)} for number in range(MOST_ENTRIES + 5)]
    assert len(told(*many)) == MOST_ENTRIES
    assert [entry["text"] for entry in told(*many, offset=MOST_ENTRIES)] == [
        "200",
        "201",
        "202",
        "203",
        "204",
    ]


def test_lines_that_are_no_events_are_left_out() -> None:
    assert list(decode(iter([b"[1]", b"no json", b"[" * 100_000, b'{"event": "end"}']))) == [{"event": "end"}]
