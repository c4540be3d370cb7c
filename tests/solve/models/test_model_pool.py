import asyncio
import json
from pathlib import Path

import pytest

from labrunner.errors import InputError, ProviderFailed
from labrunner.files.strangers.masking import Masker, make_masker
from labrunner.records.facts.transcript_events import expand, read_events
from labrunner.solve.models.asking import mock_model
from labrunner.solve.models.backend import ModelRequest, ProviderTrouble
from labrunner.solve.models.mock import MockBackend, make_mock, trouble
from labrunner.solve.models.model_pool import LONGEST_ASKED_S, Asker, ModelPool, Patience
from labrunner.solve.values.config import GenerateConfig, make_config
from labrunner.solve.values.messages import ChatMessage, ChatMessageAssistant, ChatMessageUser, ModelOutput
from labrunner.solve.values.meter import Limits, Meter
from labrunner.solve.values.task_folder import inside
from labrunner.solve.values.transcript import Transcript, shorten


def asker(events: list[bytes] | None = None) -> Asker:
    kept = [] if events is None else events
    transcript = Transcript(lambda seq, line: kept.append(line), Masker(()))
    return Asker(meter=Meter(Limits(), lambda: 0.0), transcript=transcript)


def request(text: str = "hi", **config: object) -> ModelRequest:
    return ModelRequest(messages=[ChatMessageUser(text)], config=GenerateConfig(**config))  # type: ignore[arg-type]


def quick(**patience: object) -> ModelPool:
    return ModelPool(Patience(first_wait_s=0.0, **patience), jitter=lambda: 0.0)  # type: ignore[arg-type]


async def test_places_are_counted_per_provider_and_freed_while_waiting() -> None:
    pool, at_once, most = quick(max_connections=2), 0, 0
    failed: set[str] = set()

    async def answer(asked: ModelRequest) -> str:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        text = asked.messages[-1].content
        if text not in failed:
            failed.add(text)
            raise trouble(429, "busy")
        return text

    model = mock_model(answer)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pool.ask(model, request(str(n)), asker())) for n in range(10)]
    assert [call.output.completion for task in tasks if (call := task.result()).output] == [
        str(n) for n in range(10)
    ]
    assert most == 2


async def test_people_hear_once_that_a_provider_makes_requests_wait(caplog: pytest.LogCaptureFixture) -> None:
    failed: set[str] = set()

    async def answer(asked: ModelRequest) -> str:
        text = asked.messages[-1].content
        if text not in failed:
            failed.add(text)
            raise trouble(429, "busy")
        return text

    pool, model = quick(), mock_model(answer)
    for number in range(3):
        await pool.ask(model, request(str(number)), asker())
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == "mock: http_429: HTTP status 429: busy; a request waits, this one for 0 s"


async def test_a_request_that_takes_too_long_is_trouble() -> None:
    async def answer(asked: ModelRequest) -> str:
        await asyncio.sleep(60)
        return "late"

    with pytest.raises(ProviderFailed) as failure:
        await quick(max_retries=1).ask(mock_model(answer), request(timeout=0.05), asker())
    assert failure.value.reason == "timeout"


async def test_a_backends_own_timeout_is_not_mistaken_for_ours() -> None:
    def answer(asked: ModelRequest) -> str:
        raise TimeoutError("a bug")

    with pytest.raises(TimeoutError, match="a bug"):
        await quick().ask(mock_model(answer), request(), asker())


async def test_settings_of_a_request_go_over_those_of_the_run() -> None:
    asked = 0

    def answer(given: ModelRequest) -> str:
        nonlocal asked
        asked += 1
        raise trouble(500, "no")

    with pytest.raises(ProviderFailed):
        await quick(max_retries=9).ask(mock_model(answer), request(max_retries=2), asker())
    assert asked == 3


@pytest.mark.parametrize(
    ("given", "number", "expected"),
    [
        (trouble(429, "", 3.0), 0, 3.0),
        (trouble(429, "", LONGEST_ASKED_S + 1), 0, None),
        (trouble(500, ""), 0, 0.5),
        (trouble(500, ""), 3, 4.0),
        (trouble(500, ""), 20, 30.0),
        (trouble(400, ""), 0, None),
        (ProviderTrouble("x", "", is_transient=False, retry_after_s=1.0), 0, None),
    ],
)
def test_how_long_is_waited_before_another_try(
    given: ProviderTrouble, number: int, expected: float | None
) -> None:
    assert ModelPool(jitter=lambda: 0.0)._wait_s(given, number) == expected


async def ask(backend: object, *texts: str) -> ModelOutput:
    assert isinstance(backend, MockBackend)
    return await backend.request(ModelRequest(messages=[ChatMessageUser(text) for text in texts]))


async def test_mock_models_by_name() -> None:
    assert (await ask(make_mock("echo"), "a", "b")).completion == "b"
    assert (await ask(make_mock("say=4=4"), "a")).completion == "4=4"
    with pytest.raises(ProviderTrouble) as failure:
        await ask(make_mock("fail=503"), "a")
    assert (failure.value.reason, failure.value.is_transient) == ("http_503", True)
    with pytest.raises(InputError, match="there are: echo, say=TEXT"):
        make_mock("else")


async def test_a_script_answers_by_conversation_and_fails_on_demand(tmp_path: Path) -> None:
    script = {
        "answers": [
            {
                "sample": "flaky",
                "turn": 0,
                "fail": {"status": 429, "times": 2, "retry_after_s": 0.5},
                "text": "ok",
            },
            {"turn": 0, "tool_calls": [{"function": "bash", "arguments": {"cmd": "ls"}}]},
            {"when": "file.txt", "text": "found it", "input_tokens": 3, "output_tokens": 4, "cost_usd": 0.5},
        ]
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    with inside(tmp_path):
        backend = make_mock("script.json")
    first = await ask(backend, "look around")
    assert first.stop_reason == "tool_calls"
    assert first.message.tool_calls is not None
    assert first.message.tool_calls[0].arguments == {"cmd": "ls"}
    answered: list[ChatMessage] = [
        ChatMessageUser("look"),
        ChatMessageAssistant("..."),
        ChatMessageUser("file.txt"),
    ]
    second = await backend.request(ModelRequest(messages=answered))
    assert second.usage is not None
    assert (second.completion, second.usage.total_tokens, second.usage.cost_usd) == ("found it", 7, 0.5)
    for _ in range(2):
        with pytest.raises(ProviderTrouble) as failure:
            await ask(backend, "flaky one")
        assert failure.value.retry_after_s == 0.5
    assert (await ask(backend, "flaky one")).completion == "ok"
    with pytest.raises(ProviderTrouble, match="no answer for turn 1"):
        await backend.request(ModelRequest(messages=[ChatMessageUser("x"), ChatMessageAssistant("y")]))


@pytest.mark.parametrize("content", ["{", '{"answers": [{"say": 1}]}'])
def test_a_script_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(InputError, match="is no script of a mock model"):
        make_mock(str(tmp_path / "s.json"))


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        make_mock(str(tmp_path / "gone.json"))
    assert caught.value.problem.endswith(
        f"can't be read, {tmp_path / 'gone.json'}: No such file or directory"
    )


def test_settings_are_merged_and_unknown_ones_refused() -> None:
    merged = GenerateConfig(temperature=1.0, seed=1).merge(GenerateConfig(seed=2, stop_seqs=("a",)))
    assert merged.measured() == {"temperature": 1.0, "seed": 2, "stop_seqs": ["a"]}
    with pytest.raises(InputError, match="there is no setting 'temp'; there are: temperature"):
        make_config({"temp": 1}, "-G")


def test_a_transcript_names_each_message_once() -> None:
    told: list[tuple[int, bytes]] = []
    transcript = Transcript(lambda seq, line: told.append((seq, line)), make_masker({"KEY": "secret-value"}))
    first, second, third = ChatMessageUser("a"), ChatMessageAssistant("b"), ChatMessageUser("secret-value")
    assert transcript.number([first, second]) == [0, 1]
    assert transcript.number([first, second, third]) == [0, 1, 2]
    assert transcript.number([third, first]) == [2, 0]
    first.text = "edited"
    assert transcript.number([first, second]) == [3, 1]
    data = transcript.close()
    transcript.add("late")
    events = read_events(data)
    assert [event["seq"] for event in events] == [0, 1, 2, 3] == [seq for seq, _ in told]
    assert events[2]["message"]["content"] == "[masked:KEY]"
    assert transcript.masked == 1
    assert b"".join(line + b"\n" for _, line in told) == data


def test_a_torn_transcript_is_read_up_to_its_last_line() -> None:
    assert [event["a"] for event in read_events(b'{"a":1}\n{"a":2}\n{"a":')] == [1, 2]
    assert expand([[0, 2], [5, 5]]) == [0, 1, 2, 5]


def test_long_texts_lose_their_middle() -> None:
    text = shorten("a" * 100 + "b" * 100, 40)
    assert text.startswith("a" * 30 + "\n[160 characters left out here]\n")
    assert text.endswith("b" * 10)
