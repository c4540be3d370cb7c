import json

from labrunner.display.trials.conversation import LONGEST, SHOWN, show_conversation
from tests.kit.display.printing import to_text


def told(*events: dict[str, object]) -> list[str]:
    shown = show_conversation("".join(json.dumps(event) + "\n" for event in events))
    return to_text(shown).splitlines() if shown is not None else []


def said(role: str, content: str, **more: object) -> dict[str, object]:
    return {"event": "message", "message": {"role": role, "content": content, **more}}


def test_a_transcript_reads_as_a_conversation() -> None:
    call = {"function": "bash", "arguments": {"cmd": "wc -w < poem.txt"}}
    assert told(
        {"event": "start", "sample": "words"},
        said("user", "How many words?"),
        said("assistant", "", tool_calls=[call]),
        {"event": "sandbox", "action": "exec"},
        said("tool", "6\n", function="bash"),
        said("assistant", "It has 6."),
        {"event": "score", "scorer": "includes", "value": "C", "explanation": "It has 6."},
    ) == [
        "user             How many words?",
        "assistant calls  bash(cmd='wc -w < poem.txt')",
        "tool bash        6",
        "assistant        It has 6.",
        "score            includes = C: It has 6.",
    ]


def test_retries_limits_and_errors_are_told() -> None:
    assert told(
        {"event": "retry", "reason": "http_429", "message": "HTTP status 429", "wait_s": 1.25},
        {"event": "limit", "limit": "messages", "message": "3 messages"},
        {"event": "error", "cause": "solver", "message": "RuntimeError: out of luck"},
    ) == [
        "retry  HTTP status 429; waited 1.2 s",
        "limit  3 messages",
        "error  solver: RuntimeError: out of luck",
    ]


def test_other_line_separators_in_a_message_do_not_hide_it() -> None:
    event = json.dumps(said("user", "one\u2028two\x85three"), ensure_ascii=False)
    shown = show_conversation(f"{event}\n")
    assert shown is not None
    assert "three" in to_text(shown)


def test_what_is_said_can_not_move_the_cursor() -> None:
    assert told(said("assistant", "\x1b[2Jgone")) == ["assistant  \\x1b[2Jgone"]


def test_long_texts_and_long_conversations_are_cut_and_say_so() -> None:
    lines = told(*(said("user", f"number {number}") for number in range(SHOWN + 5)))
    assert lines[0] == "(5 earlier entries)"
    assert lines[-1] == f"user  number {SHOWN + 4}"
    assert "(… 40 more characters …)" in " ".join("".join(told(said("user", "x" * (LONGEST + 40)))).split())


def test_a_first_line_that_is_torn_is_passed_over_and_no_events_are_nothing() -> None:
    shown = show_conversation('le": "user"}}\n' + json.dumps(said("user", "hello")) + "\n")
    assert shown is not None
    assert to_text(shown) == "user  hello\n"
    assert show_conversation("no events\n") is None


def test_what_a_tool_could_not_do_is_told() -> None:
    trouble = {"type": "timeout", "message": "the command ran into its time limit of 3 s"}
    assert told(
        said("tool", "", function="bash", error=trouble),
        said("tool", "half of it", function="bash", error={"type": "parsing", "message": "no JSON"}),
    ) == [
        "tool bash error  timeout: the command ran into its time limit of 3 s",
        "tool bash        half of it",
        "tool bash error  parsing: no JSON",
    ]
