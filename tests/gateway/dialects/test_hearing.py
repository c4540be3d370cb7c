import gzip
import json
import re
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labrunner.gateway.dialects.hearing import Hearing, listen_to
from labrunner.gateway.dialects.speech import Ask, Complaint, Heard, Protocols, Tokens, WantedCall
from tests.kit.gateway import answers

SPOKEN: list[Protocols] = [each for each in get_args(Protocols) if each != "openai"]
STOPS = {
    "openai_chat": "tool_calls",
    "openai_responses": "completed",
    "anthropic": "tool_use",
    "gemini": "STOP",
}
TOKENS = Tokens(input=120, output=30, cache_read=100, reasoning=12)
KEYS = st.sampled_from(
    ["type", "object", "response", "choices", "message", "finish_reason", "delta", "error", "index"]
) | st.sampled_from(["candidates", "finishReason", "promptFeedback", "blockReason"])
WORDS = st.sampled_from(["message_stop", "message", "response", "response.completed", "stop", "[DONE]", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
EVENTS = "text/event-stream; charset=utf-8"


def make_ask(protocol: Protocols, *, hides_usage: bool = False) -> Ask:
    return Ask(protocol=protocol, purpose="generate", path="/", hides_usage=hides_usage)


def hear(ask: Ask, pieces: list[bytes], content_type: str, encoding: str = "") -> tuple[Heard, bytes]:
    hearing = Hearing(ask, content_type=content_type, encoding=encoding)
    passed = b"".join(hearing.take(piece) for piece in pieces) + hearing.finish()
    assert hearing.trouble is None
    return hearing.tell(200), passed


def check(heard: Heard, protocol: Protocols) -> None:
    anthropic = Tokens(input=120, output=30, cache_read=60, cache_write=40, cache_write_1h=10)
    assert heard.tokens == (anthropic if protocol == "anthropic" else TOKENS)
    assert (heard.text, heard.stop_reason) == ("Hello, wörld", STOPS[protocol])
    assert heard.wanted == (
        WantedCall(id="a", name="ls", arguments='{"p":"/"}'),
        WantedCall(id="b", name="cat", arguments="{}"),
    )
    assert heard.reasoning == ("" if protocol == "openai_chat" else "hm")
    assert heard.is_over
    assert heard.complaint is None


@pytest.mark.parametrize("protocol", SPOKEN)
def test_a_whole_answer_is_understood(protocol: Protocols) -> None:
    body = json.dumps(answers.WHOLE[protocol]).encode()
    heard, passed = hear(make_ask(protocol), [body[:70], body[70:]], "application/json")
    assert passed == body
    check(heard, protocol)


@pytest.mark.parametrize("protocol", SPOKEN)
@settings(deadline=None)
@given(size=st.integers(1, 700), is_packed=st.booleans())
def test_a_stream_in_any_pieces_says_the_same_and_passes_unchanged(
    protocol: Protocols, size: int, is_packed: bool
) -> None:
    whole = gzip.compress(answers.STREAMS[protocol]) if is_packed else answers.STREAMS[protocol]
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    heard, passed = hear(make_ask(protocol), pieces, EVENTS, "gzip" if is_packed else "")
    assert passed == whole
    check(heard, protocol)


@settings(deadline=None)
@given(size=st.integers(1, 700), is_packed=st.booleans())
def test_the_chunk_with_usage_is_hidden_and_nothing_else(size: int, is_packed: bool) -> None:
    whole = gzip.compress(answers.STREAMS["openai_chat"]) if is_packed else answers.STREAMS["openai_chat"]
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    ask = make_ask("openai_chat", hides_usage=True)
    heard, passed = hear(ask, pieces, EVENTS, "gzip" if is_packed else "")
    events = list(answers.stream_chat(with_usage=True))
    assert passed == b"".join(events[:-2] + events[-1:])
    check(heard, "openai_chat")


def test_what_a_cut_stream_began_reaches_a_client_from_whom_a_chunk_is_hidden() -> None:
    cut = answers.STREAMS["openai_chat"][:-300]
    assert hear(make_ask("openai_chat", hides_usage=True), [cut], EVENTS)[1] == cut


def test_a_gemini_stream_without_events_is_a_list_that_is_read_as_it_comes() -> None:
    hearing = Hearing(make_ask("gemini"), content_type="application/json", encoding="")
    *pieces, _, _ = answers.stream_gemini(is_sse=False)
    for piece in pieces:
        hearing.take(piece)
    assert hearing.tell(200).text == "Hello, wörld"
    heard, _ = hear(make_ask("gemini"), list(answers.stream_gemini(is_sse=False)), "application/json")
    check(heard, "gemini")


@pytest.mark.parametrize("protocol", SPOKEN)
def test_a_stream_that_is_cut_is_not_over_and_tells_what_it_said(protocol: Protocols) -> None:
    whole = answers.STREAMS[protocol]
    heard, _ = hear(make_ask(protocol), [whole[: whole.index("wörld".encode()) - 40]], EVENTS)
    assert not heard.is_over
    assert (heard.text, heard.stop_reason) == ("Hello, ", None)
    assert heard.size >= len("Hello, ")


def test_a_cut_message_knows_its_input_already() -> None:
    heard, _ = hear(make_ask("anthropic"), [answers.STREAMS["anthropic"][:900]], EVENTS)
    assert heard.tokens is not None
    assert (heard.tokens.input, heard.tokens.output) == (120, 1)


@pytest.mark.parametrize("protocol", SPOKEN)
def test_an_error_is_told_as_the_provider_told_it(protocol: Protocols) -> None:
    hearing = Hearing(make_ask(protocol), content_type="application/json", encoding="")
    hearing.take(json.dumps(answers.ERRORS[protocol]).encode())
    kind = "RESOURCE_EXHAUSTED" if protocol == "gemini" else "rate_limit_error"
    assert hearing.tell(429).complaint == Complaint(kind=kind, message="slow down")


def test_an_error_that_is_no_json_is_told_by_its_text() -> None:
    hearing = Hearing(make_ask("anthropic"), content_type="text/html", encoding="")
    assert hearing.take(b"<h1>Bad gateway</h1>") == b"<h1>Bad gateway</h1>"
    assert hearing.tell(502).complaint == Complaint(kind=None, message="<h1>Bad gateway</h1>")


def test_an_error_in_the_middle_of_a_stream_is_heard() -> None:
    said = answers.event({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "error")
    heard, _ = hear(make_ask("anthropic"), [answers.STREAMS["anthropic"][:0] + said], EVENTS)
    assert heard.complaint == Complaint(kind="overloaded_error", message="busy")
    failed = {
        "id": "r",
        "object": "response",
        "status": "failed",
        "error": {"code": "server_error", "message": "x"},
    }
    told = answers.event({"type": "response.failed", "response": failed})
    heard, _ = hear(make_ask("openai_responses"), [told], EVENTS)
    assert heard.complaint == Complaint(kind="server_error", message="x")


def test_refusals_are_heard() -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": None, "refusal": "no"}}
    whole = json.dumps({"choices": [choice]}).encode()
    assert hear(make_ask("openai_chat"), [whole], "application/json")[0].refusal == "no"
    blocked = json.dumps({"promptFeedback": {"blockReason": "SAFETY"}}).encode()
    assert hear(make_ask("gemini"), [blocked], "application/json")[0].refusal == "SAFETY"
    message = answers.MESSAGE | {"stop_reason": "refusal"}
    assert hear(make_ask("anthropic"), [json.dumps(message).encode()], "application/json")[0].refusal


def test_an_answer_that_can_not_be_read_passes_and_says_so() -> None:
    hearing = Hearing(make_ask("openai_chat", hides_usage=True), content_type=EVENTS, encoding="br")
    assert hearing.take(b"\x01\x02") == b"\x01\x02"
    assert "'br' can't be read" in str(hearing.trouble)
    assert hearing.tell(200).tokens is None


@pytest.mark.parametrize("protocol", SPOKEN)
def test_the_last_event_is_known_before_anything_was_heard(protocol: Protocols) -> None:
    hearing = Hearing(make_ask(protocol), content_type=EVENTS, encoding="")
    *before, last = re.findall(rb".*?\n\n", answers.STREAMS[protocol], re.DOTALL)
    for event in before:
        hearing.take(event)
    assert not hearing.is_over
    hearing.take(last)
    assert hearing.is_over
    check(hearing.tell(200), protocol)  # nobody said that there was time to hear it


@pytest.mark.parametrize("protocol", SPOKEN)
@settings(deadline=None)
@given(value=JSON)
def test_whatever_a_provider_sends_can_be_asked_whether_it_is_the_last(
    protocol: Protocols, value: object
) -> None:
    listener = listen_to(protocol)
    ends = listener.ends(value)
    listener.hear(value)
    assert listener.tell().is_over or not ends
