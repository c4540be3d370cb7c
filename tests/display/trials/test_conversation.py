import json

from labrunner.display.trials.conversation import LONGEST, SHOWN_FIRST, SHOWN_LAST, Extent, show_conversation
from tests.kit.display.printing import to_text


def told(*events: dict[str, object]) -> list[str]:
    text = "".join(json.dumps(event) + "\n" for event in events)
    shown = show_conversation(text, Extent(for_all="lab show it --whole"))
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
    many = SHOWN_FIRST + SHOWN_LAST + 5
    lines = told(*(said("user", f"number {number}") for number in range(many)))
    assert lines[0] == "user  number 0"
    assert lines[SHOWN_FIRST] == "(5 entries left out here; all of it: lab show it --whole)"
    assert lines[-1] == f"user  number {many - 1}"
    assert len(lines) == SHOWN_FIRST + 1 + SHOWN_LAST
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


def call(*, thread: int | None = None, parent: int | None = None, **more: object) -> dict[str, object]:
    usage = {"input_tokens": 120, "output_tokens": 30, "total_tokens": 150, "cost_usd": 0.00042}
    event: dict[str, object] = {
        "event": "model",
        "model": "openai/m",
        "seconds": 1.25,
        "usage": usage,
        **more,
    }
    event |= {} if thread is None else {"thread": thread}
    return event | ({} if parent is None else {"parent": parent})


def test_calls_tell_tokens_and_money_each_and_in_all() -> None:
    cached = {
        "input_tokens": 1200,
        "output_tokens": 30,
        "total_tokens": 1230,
        "input_tokens_cache_read": 1000,
        "reasoning_tokens": 12,
        "cost_usd": None,
        "basis": "counted",
    }
    first, *rest, last = told(said("user", "hi"), call(), call(usage=cached))[1:]
    assert first == "call  openai/m, 120 tokens in, 30 out, $0.00042, 1.2 s"
    assert " ".join(" ".join(rest).split()) == (
        "call openai/m, 1,200 tokens in (1,000 from the cache), 30 out (12 reasoning), no price, 1.2 s "
        "(counted, not reported)"
    )
    assert last == "in all: 2 calls, 1,320 tokens in, 60 out, $0.00042, 1 call without a price"


def test_what_a_provider_refused_and_what_was_taken_out_stand_in_their_place() -> None:
    trouble = {"end": "error", "kind": "overloaded_error", "status": 529, "message": "busy"}
    assert told(
        said("user", "hi"),
        call(error=trouble, usage=None),
        call(taken_out=["web_search"], usage=None),
        said("assistant", "hello", reasoning="a greeting"),
    ) == [
        "user              hi",
        "call failed       529 overloaded_error error: busy",
        "taken out         web_search",
        "assistant thinks  a greeting",
        "assistant         hello",
    ]


def test_conversations_begun_out_of_others_stand_where_they_began() -> None:
    def of(thread: int, role: str, text: str) -> dict[str, object]:
        return {**said(role, text), "thread": thread}

    assert told(
        of(0, "user", "do it"),
        of(0, "assistant", "I ask a helper"),
        call(thread=0, usage=None),
        of(1, "user", "help"),
        call(thread=1, parent=0, usage=None),
        of(2, "user", "help the helper"),
        call(thread=2, parent=1, usage=None),
        of(0, "tool", "helped"),
        call(thread=0, usage=None),
        of(1, "tool", "late"),
        call(thread=1, parent=0, usage=None),
        of(3, "user", "a title, please"),
        call(thread=3, usage=None),
    ) == [
        "user              do it",
        "assistant         I ask a helper",
        "  conversation    2, begun out of 1:",
        "  user            help",
        "    conversation  3, begun out of 2:",
        "    user          help the helper",
        "  tool            late",
        "tool              helped",
        "conversation      4:",
        "user              a title, please",
    ]


def test_hostile_events_are_shown_inert() -> None:
    lines = told(
        {"event": "message", "message": ["no map"]},
        {"event": "message", "message": {"role": "\x1b[31mred", "content": "x", "tool_calls": "many"}},
        {
            "event": "model",
            "model": "\x1b[2J",
            "usage": {"total_tokens": 1},
            "seconds": "long",
            "thread": "x",
        },
        {
            "event": "model",
            "thread": 7,
            "parent": 99,
            "usage": "much",
            "error": {"message": "\x1b]0;title\x07"},
        },
        {"event": "retry", "wait_s": "soon", "message": None},
    )
    assert "\x1b" not in "".join(lines)
    assert any("\\x1b[31mred" in line for line in lines)


def test_what_is_said_again_is_told_again() -> None:
    def numbered(number: int, role: str, text: str) -> dict[str, object]:
        return {**said(role, text), "id": number}

    assert told(
        numbered(0, "user", "and now?"),
        numbered(1, "assistant", "yes"),
        {"event": "model", "input": [[0, 0]], "output": 1},
        {"event": "model", "after": 2, "input": [[0, 0]], "output": 1},
        numbered(2, "user", "really?"),
        {"event": "model", "after": 4, "input": [[2, 2]], "output": 1},
        {"event": "model", "input": [[0, 2]], "output": 1},
    ) == [
        "user       and now?",
        "assistant  yes",
        "user       and now?",
        "assistant  yes",
        "user       really?",
        "assistant  yes",
        "user       really?",
        "assistant  yes",
    ]
