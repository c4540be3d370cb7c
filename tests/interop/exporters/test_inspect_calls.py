"""Runs of command-line agents are exported with what they said to their models, read by the real package."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from labrunner.interop.registry import export
from labrunner.runner.reports.lookup import read_in_full
from labrunner.store.layout import RunPaths
from tests.kit.gateway.provider import Fail
from tests.kit.gateway.talking import FIRST, LAST, Say, Talked, chat, user, write_talked_run

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

pytestmark = pytest.mark.filterwarnings("ignore")  # the other package's own
ANSWER = {
    "role": "assistant",
    "content": "Hello, wörld",
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"p":"/"}'}},
        {"id": "b", "type": "function", "function": {"name": "cat", "arguments": "{}"}},
    ],
}
LONG = "a long question " * 20
LISTED = {"role": "tool", "tool_call_id": "a", "content": "a.txt"}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    first = Talked(
        said=[
            chat(user(LONG), stream=True, temperature=0.5),
            chat(user("a helper's question")),
            chat(user(LONG), ANSWER, LISTED),
            chat(user(LONG), ANSWER, LISTED),
        ],
        plan=["answer", Fail(status=429, retry_after="0"), "answer", "answer", Fail(status=400, kind="bad")],
    )
    body = {"model": "m", "max_tokens": 9, "messages": [user("think")]}
    last = Talked(said=[Say(path="/anthropic/v1/messages", body=body)])
    return write_talked_run(tmp_path_factory.mktemp("runs"), {FIRST: first, LAST: last})


@pytest.fixture(scope="module")
def samples(paths: RunPaths, tmp_path_factory: pytest.TempPathFactory) -> "dict[str, EvalSample]":
    from inspect_ai.log import read_eval_log

    made = export(read_in_full(paths), "inspect", tmp_path_factory.mktemp("logs") / "here")
    logs = [read_eval_log(str(path), resolve_attachments=True) for path in made]
    for log, tokens in zip(logs, (450, 150), strict=True):
        assert sum(usage.total_tokens for usage in log.stats.model_usage.values()) == tokens
    return {each.metadata["trial_id"]: each for log in logs for each in log.samples or []}


def of(sample: "EvalSample", kind: str) -> list[Any]:
    return [event for event in sample.events if event.event == kind]


def test_the_conversation_is_the_main_one(samples: "dict[str, EvalSample]") -> None:
    messages = samples[FIRST].messages
    assert [(message.role, message.text) for message in messages] == [
        ("user", LONG),
        ("assistant", "Hello, wörld"),
        ("tool", "a.txt"),
    ]
    assert messages[1].role == "assistant"
    calls = messages[1].tool_calls or []
    assert [(call.function, call.arguments) for call in calls] == [("ls", {"p": "/"}), ("cat", {})]


def test_each_call_is_a_model_event_with_what_was_asked_said_and_used(
    samples: "dict[str, EvalSample]",
) -> None:
    events = of(samples[FIRST], "model")
    assert [len(event.input) for event in events] == [1, 1, 3, 3]
    assert [message.text for message in events[2].input] == [LONG, "Hello, wörld", "a.txt"]
    first = events[0]
    assert (first.model, first.config.temperature) == ("openai/m", 0.5)
    assert first.output.completion == "Hello, wörld"
    assert first.output.stop_reason == "tool_calls"
    usage = first.output.usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (120, 30, 12)
    assert usage.total_cost == pytest.approx(0.00042)
    assert events[3].error == "400 bad error: no"
    assert events[3].output.choices == []


def test_conversations_beside_the_main_one_are_spans(samples: "dict[str, EvalSample]") -> None:
    (begun,) = of(samples[FIRST], "span_begin")
    assert (begun.id, begun.name, begun.parent_id) == ("conversation-1", "conversation 2", None)
    assert [event.span_id for event in of(samples[FIRST], "model")] == [None, begun.id, None, None]
    assert [event.id for event in of(samples[FIRST], "span_end")] == [begun.id]


def test_what_was_tried_again_is_information_in_its_place(samples: "dict[str, EvalSample]") -> None:
    (told,) = of(samples[FIRST], "info")
    assert told.data["reason"] == "http_429"


def test_reasoning_stands_before_the_answer(samples: "dict[str, EvalSample]") -> None:
    (event,) = of(samples[LAST], "model")
    content = event.output.choices[0].message.content
    assert [(part.type, getattr(part, part.type)) for part in content] == [
        ("reasoning", "hm"),
        ("text", "Hello, wörld"),
    ]
    assert event.output.completion == "Hello, wörld"


def test_usage_is_told_by_model(samples: "dict[str, EvalSample]") -> None:
    usage = samples[FIRST].model_usage["openai/m"]
    assert (usage.input_tokens, usage.total_tokens) == (360, 450)
    assert usage.total_cost == pytest.approx(3 * 0.00042)


def test_other_formats_have_tokens_and_money(paths: RunPaths, tmp_path: Path) -> None:
    (table,) = export(read_in_full(paths), "csv", tmp_path / "t.csv")
    header, *lines = table.read_text().splitlines()
    row = next(dict(zip(header.split(","), line.split(","), strict=True)) for line in lines if FIRST in line)
    assert float(row["tokens"]) == 450
    assert float(row["cost_usd"]) == pytest.approx(3 * 0.00042)
