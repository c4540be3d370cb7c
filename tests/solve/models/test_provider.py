import asyncio
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labrunner.errors import InputError
from labrunner.log import EvalLog
from labrunner.solve.authoring.solver import Generate, solver
from labrunner.solve.library.solvers import generate, system_message, use_tools
from labrunner.solve.models.asking import Model, get_model, mock_model
from labrunner.solve.models.modelname import parse_model_name
from labrunner.solve.models.provider import ProviderBackend, make_provider, to_theirs
from labrunner.solve.values.config import GenerateConfig
from labrunner.solve.values.sample import Sample
from labrunner.solve.values.state import TaskState
from labrunner.solve.values.tool import Tool, tool
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_run
from tests.kit.solve.authoring import make_task, retry, run, samples, write_task
from tests.kit.solve.chatserver import Babble, ChatServer, Refuse, Reply, Say, last_user, serving

LETTER = """
@task
def letter():
    return Task(dataset=[Sample(input="a", target="a")], solver=generate(), scorer=includes())
"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-tests")


@pytest.fixture
def echoing() -> Iterator[ChatServer]:
    with serving(lambda asked: Say(text=f"you said {last_user(asked)}")) as server:
        yield server


def ask(server: ChatServer, tmp_path: Path, task: Any = None, **options: Any) -> EvalLog:
    given = {"model_base_url": server.url, "fail_on_error": False, **options}
    return run(task or make_task(), tmp_path, "openai/gpt-5-mini", **given)


def once(reply: Reply) -> Any:
    """Misbehave at the first request of each sample, answer from then on."""
    seen: Counter[str] = Counter()

    def answer(asked: dict[str, Any]) -> Reply:
        seen[last_user(asked)] += 1
        return reply if seen[last_user(asked)] == 1 else Say(text=last_user(asked))

    return answer


def test_a_provider_is_asked_and_its_usage_and_cost_are_recorded(tmp_path: Path, echoing: ChatServer) -> None:
    log = ask(echoing, tmp_path, make_task(solver=[system_message("Be kind."), generate()]))
    assert log.results.metrics["accuracy"].value == 1.0
    usage = log.samples[0].model_usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (10, 5, 15)
    assert usage.cost_usd is not None
    assert usage.cost_usd > 0
    assert echoing.requests[0]["messages"][0] == {"role": "system", "content": "Be kind."}
    assert log.eval.model == "openai/gpt-5-mini"
    assert log.eval.model_base_url == echoing.url


def test_settings_reach_the_provider(tmp_path: Path, echoing: ChatServer) -> None:
    task = make_task(samples("a"), solver=generate(max_tokens=7))
    options = {"temperature": 0.25, "seed": 11, "stop_seqs": ["END"], "top_p": 0.5}
    log = run(task, tmp_path, "openai/gpt-4o", model_base_url=echoing.url, **options)
    asked = echoing.requests[0]
    assert (asked["temperature"], asked["seed"], asked["stop"], asked["top_p"]) == (0.25, 11, ["END"], 0.5)
    assert asked["max_completion_tokens"] == 7
    assert log.eval.model_config == {"temperature": 0.25, "seed": 11, "stop_seqs": ["END"], "top_p": 0.5}


def test_what_a_model_leaves_out_is_not_warned_of_at_every_request(
    tmp_path: Path, echoing: ChatServer
) -> None:
    task = make_task(samples(*map(str, range(20))))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        ask(echoing, tmp_path, task, temperature=0.5, presence_penalty=0.5)
    told = [each for each in warned if "presence_penalty" in str(each.message)]
    # Once, but that Python forgets what it has said when a library that is loaded sets filters of its own.
    assert 1 <= len(told) <= 3
    assert len(echoing.requests) == 20


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Refuse(status=429), "http_429"),
        (Refuse(status=500), "http_500"),
        ("cut", "connection"),
        ("hang", "timeout"),
    ],
    ids=["429", "500", "cut", "hang"],
)
def test_passing_trouble_is_waited_out(tmp_path: Path, trouble: Reply, reason: str) -> None:
    with serving(once(trouble)) as server:
        log = ask(server, tmp_path, make_task(samples("a")), timeout=1.0)
    sample = log.samples[0]
    assert (sample.attempts, sample.error) == (1, None)
    assert [event["reason"] for event in sample.events if event["event"] == "retry"] == [reason]
    assert len(server.requests) == 2


def test_a_provider_that_asks_for_patience_gets_it(tmp_path: Path) -> None:
    with serving(once(Refuse(status=429, retry_after="2"))) as server:
        started = time.monotonic()
        log = ask(server, tmp_path, make_task(samples("a")))
    assert time.monotonic() - started >= 2.0
    waits = [event["wait_s"] for event in log.samples[0].events if event["event"] == "retry"]
    assert 2.0 <= waits[0] <= 2.2
    assert log.samples[0].working_time < 2.0


def test_trouble_that_stays_is_the_providers_and_named_by_status(tmp_path: Path) -> None:
    with serving(lambda asked: Refuse(status=400)) as server:
        error = ask(server, tmp_path, make_task(samples("a"))).samples[0].error
    assert error is not None
    assert (error.cause, error.reason) == ("provider", "http_400")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "http_401"), (402, "quota"), (403, "http_403"), (404, "http_404")]
)
def test_an_account_that_is_refused_or_a_model_that_nobody_knows_is_no_outage(
    tmp_path: Path, status: int, reason: str
) -> None:
    with serving(lambda asked: Refuse(status=status)) as server:
        sample = ask(server, tmp_path, make_task(samples("a")), retry_on_error=2).samples[0]
    assert sample.error is not None
    assert (sample.error.cause, sample.error.reason) == ("account", reason)
    assert len(server.requests) == 1  # no waiting would have mended it


HEAD = b'"id": "x", "object": "chat.completion", "created": 1, "model": "m"'


@pytest.mark.parametrize(
    "babble",
    [
        Babble(body=b"{" + HEAD + b', "choices": []}'),
        Babble(body=b"{" + HEAD + b', "choices": [{"index": 0, "finish_reason": "stop"}]}'),
        Babble(body=b"not JSON"),
        Babble(body=b'{"id": "x", "choi'),
        Babble(body=b""),
        Babble(body=b"<html>busy</html>", kind="text/html"),
    ],
)
def test_an_answer_that_cannot_be_read_is_the_providers_and_tried_again(
    tmp_path: Path, babble: Babble
) -> None:
    with serving(once(babble)) as server:
        good = ask(server, tmp_path, make_task(samples("a")))
        assert len(server.requests) == 2
    with serving(lambda _: babble) as server:
        bad = ask(server, tmp_path, make_task(samples("a")), max_retries=1)
        assert len(server.requests) == 2
    assert good.results.metrics["accuracy"].value == 1.0
    error = bad.samples[0].error
    assert error is not None
    assert (error.cause, error.reason) == ("provider", "bad_answer")


def test_a_provider_that_asks_for_too_much_patience_is_told_with_what_it_asked_for(tmp_path: Path) -> None:
    with serving(lambda _: Refuse(status=429, retry_after="100000")) as server:
        error = ask(server, tmp_path, make_task(samples("a"))).samples[0].error
        assert len(server.requests) == 1
    assert error is not None
    assert (error.cause, error.reason) == ("provider", "http_429")
    assert "it asks to wait 100,000 s, and nobody is waited for longer than 600 s" in error.message


def test_retries_are_ours_alone_and_counted(tmp_path: Path) -> None:
    with serving(lambda asked: Refuse(status=503, retry_after="0")) as server:
        error = ask(server, tmp_path, make_task(samples("a")), max_retries=2).samples[0].error
    assert error is not None
    assert error.reason == "http_503"
    assert len(server.requests) == 3


def test_a_conversation_too_long_is_an_answer_and_no_error(tmp_path: Path) -> None:
    with serving(lambda asked: Refuse(status=400, code="context_length_exceeded")) as server:
        sample = ask(server, tmp_path, make_task(samples("a"))).samples[0]
    assert sample.error is None
    assert sample.output.stop_reason == "model_length"


def test_connections_are_bounded_over_all_trials(tmp_path: Path) -> None:
    def slow(asked: dict[str, Any]) -> Reply:
        time.sleep(0.05)
        return Say(text=last_user(asked))

    with serving(slow) as server:
        log = ask(server, tmp_path, make_task(samples(*map(str, range(30)))), max_connections=3)
    assert log.results.completed_samples == 30
    assert server.most_at_once == 3


def test_hundreds_of_requests_wait_at_once_in_one_process(tmp_path: Path) -> None:
    count = 300
    everybody = asyncio.Event()
    waiting = 0

    async def answer(request: Any) -> str:
        nonlocal waiting
        waiting += 1
        if waiting == count:
            everybody.set()
        await everybody.wait()
        return str(request.messages[-1].content)

    task = make_task(samples(*map(str, range(count))))
    log = run(task, tmp_path, mock_model(answer), max_connections=count)
    assert log.results.metrics["accuracy"].value == 1.0


@tool
def add() -> Any:
    async def execute(x: int, y: int) -> int:
        """Add two numbers.

        Args:
            x (int): The first.
            y: The second.
        """
        return x + y

    return execute


def test_tools_are_offered_called_and_answered(tmp_path: Path) -> None:
    def reply(asked: dict[str, Any]) -> Reply:
        said = [each for each in asked["messages"] if each["role"] == "tool"]
        if not said:
            return Say(calls=[("add", {"x": 20, "y": 22}), ("add", {"x": 1, "y": "one"})])
        return Say(text=f"{said[0]['content']} and {said[1]['content']}")

    task = make_task([Sample(input="add", target="42")], solver=[use_tools(add()), generate()])
    with serving(reply) as server:
        log = ask(server, tmp_path, task)
    sample = log.samples[0]
    assert sample.score is not None
    assert str(sample.score.answer).startswith("42 and the arguments of add are wrong: y: ")
    offered = server.requests[0]["tools"][0]["function"]
    assert offered["description"] == "Add two numbers."
    assert offered["parameters"]["properties"]["x"] == {"type": "integer", "description": "The first."}
    assert offered["parameters"]["required"] == ["x", "y"]
    roles = [message["role"] for message in server.requests[1]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]


def test_a_choice_of_tool_is_passed_on_until_it_was_made(tmp_path: Path) -> None:
    def reply(asked: dict[str, Any]) -> Reply:
        if asked["messages"][-1]["role"] == "user":
            return Say(calls=[("add", {"x": 1, "y": 2})])
        return Say(text="3")

    task = make_task(samples("q", target="3"), solver=[use_tools(add(), tool_choice="any"), generate()])
    with serving(reply) as server:
        assert ask(server, tmp_path, task).results.metrics["accuracy"].value == 1.0
    assert server.requests[0]["tool_choice"] == "required"
    assert server.requests[1].get("tool_choice") in {None, "auto"}


CTF = """
@task
def intercode_ctf():
    return Task(
        dataset=json_dataset("ctf.jsonl"),
        solver=[system_message("system.txt"), use_tools([bash(timeout=120)]), generate()],
        fail_on_error=0.1,
        scorer=includes(),
        sandbox="bubblewrap",
    )
"""


@pytest.mark.bwrap
def test_the_example_fails_by_rate_limits_and_a_retry_completes_it(tmp_path: Path) -> None:
    flags = {f"picoCTF{{flag_{n}}}": n for n in range(6)}
    rows = [
        {"input": f"Find flag {n}.", "target": flag, "files": {"flag.txt": flag}} for flag, n in flags.items()
    ]
    import json

    (tmp_path / "ctf.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "system.txt").write_text("You capture flags.")
    file = write_task(tmp_path, CTF, "ctf.py")
    is_busy = True
    asked_for: Counter[str] = Counter()

    def reply(asked: dict[str, Any]) -> Reply:
        asked_for[last_user(asked)] += 1
        if is_busy and last_user(asked) in {"Find flag 2.", "Find flag 4."}:
            return Refuse(status=429, retry_after="0")
        last = asked["messages"][-1]
        if last["role"] == "user":
            return Say(calls=[("bash", {"cmd": "cat flag.txt"})])
        return Say(text=f"The flag is {last['content']}")

    with serving(reply) as server:
        options = {"model_base_url": server.url, "max_retries": 1, "continue_on_fail": True}
        log = run(str(file), tmp_path, "openai/gpt-5-mini", **options)
        assert log.status == "error"
        assert [sample.error.cause for sample in log.samples if sample.error] == ["provider"] * 2
        is_busy = False
        before = dict(asked_for)
        again = retry(log, max_connections=3)
    assert again.status == "success"
    assert again.results.metrics["accuracy"].value == 1.0
    assert again.eval.task_id == log.eval.task_id
    more = {name for name, count in asked_for.items() if count > before.get(name, 0)}
    assert more == {"Find flag 2.", "Find flag 4."}


@pytest.mark.parametrize("text", ["openai/gpt-5-mini", "openai:gpt-5-mini"])
def test_a_slash_and_a_colon_name_the_same_model(text: str) -> None:
    assert str(parse_model_name(text)) == "openai/gpt-5-mini"
    assert get_model(text) == Model("openai/gpt-5-mini")


def test_only_the_first_mark_separates() -> None:
    name = parse_model_name("openrouter/anthropic/claude:free")
    assert (name.provider, name.model) == ("openrouter", "anthropic/claude:free")


@pytest.mark.parametrize("text", ["gpt", "", "openai/", "/gpt"])
def test_what_names_no_model_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="names no model"):
        parse_model_name(text)


def test_an_unknown_provider_or_a_missing_key_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="unknown model"):
        run(make_task(), tmp_path, "nobody/knows")
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        run(make_task(), tmp_path, "openai/gpt-5-mini")
    assert not (tmp_path / "runs").exists()


async def test_pydantic_ais_own_test_model_stands_behind_the_same_door() -> None:
    from pydantic_ai.models.test import TestModel

    from labrunner.solve.models.backend import ModelRequest
    from labrunner.solve.values.messages import ChatMessageUser

    backend = ProviderBackend(TestModel(custom_output_text="from the test model"), "test/model")
    output = await backend.request(ModelRequest(messages=[ChatMessageUser("hi")]))
    assert output.completion == "from the test model"
    assert output.usage is not None
    assert output.usage.total_tokens > 0


def test_an_answer_goes_back_as_it_came_unless_it_was_edited() -> None:
    from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart

    from labrunner.solve.models.provider import from_theirs
    from labrunner.solve.values.messages import ChatMessageUser

    native = ModelResponse([ThinkingPart("hm", signature="signed"), TextPart("yes")])
    message = from_theirs(native, "m").message
    assert message.reasoning == "hm"
    assert to_theirs([ChatMessageUser("q"), message])[1] is native
    message.content = "no"
    assert to_theirs([ChatMessageUser("q"), message])[1].parts == [TextPart("no")]


async def test_clients_are_closed() -> None:
    with serving(lambda asked: Say(text="hi")) as server:
        backend = make_provider(parse_model_name("openai/x"), server.url)
        await backend.close()


def test_a_tool_is_still_the_function_that_it_is() -> None:
    made = add()
    assert isinstance(made, Tool)
    assert asyncio.run(made(2, 3)) == 5


def test_a_cost_limit_needs_a_price(tmp_path: Path, echoing: ChatServer) -> None:
    assert ask(echoing, tmp_path, make_task(samples("a"), cost_limit=1.0)).status == "success"
    with pytest.raises(InputError, match="nobody knows what openai/home-made costs"):
        run(make_task(cost_limit=1.0), tmp_path, "openai/home-made", model_base_url=echoing.url)


@solver
def asking_at_once(times: int, **settings: Any) -> object:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate
        config = GenerateConfig(**settings)
        asked = [asyncio.ensure_future(get_model().generate("a", config=config)) for _ in range(times)]
        await asyncio.wait(asked)
        errors = [error for each in asked if (error := each.exception()) is not None]
        raise errors[0]

    return solve


@pytest.mark.parametrize(
    ("settings", "requests"),
    [({"max_tokens": 1000}, 4), ({}, 5)],  # an answer without a limit may go over, one and no more
)
def test_requests_at_the_same_time_do_not_go_over_a_cost_limit_together(
    tmp_path: Path, settings: dict[str, int], requests: int
) -> None:
    # At 0.25 and 2 USD for a million tokens an answer costs 0.002, and a request can cost some 0.0026.
    with serving(lambda asked: Say(text=last_user(asked), tokens=(0, 1000))) as server:
        task = make_task(samples("a"), solver=asking_at_once(8, **settings), cost_limit=0.009)
        sample = ask(server, tmp_path, task).samples[0]
        assert sample.limit is not None
        assert (sample.limit.type, len(server.requests)) == ("cost", requests)
    assert sample.model_usage.cost_usd == pytest.approx(0.002 * requests)


@pytest.mark.parametrize("model", ["openai/gpt-4o", Model("openai/gpt-4o")])
def test_a_retry_with_another_model_asks_where_it_is_told(
    tmp_path: Path, echoing: ChatServer, monkeypatch: pytest.MonkeyPatch, model: "str | Model"
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # where nobody answers
    log = run(str(write_task(tmp_path, LETTER)), tmp_path, "mock/echo")
    again = retry(log, model=model, model_base_url=echoing.url, max_retries=0)
    assert [asked["model"] for asked in echoing.requests] == ["gpt-4o"]
    assert (again.status, again.eval.model_base_url) == ("success", echoing.url)
    assert read_run(RunPaths(Path(again.location))).overrides["model_base_url"] == echoing.url


@pytest.mark.parametrize("model", ["openai/gpt-4o", Model("openai/gpt-4o")])
def test_a_retry_with_another_model_asks_where_the_run_did(
    tmp_path: Path, echoing: ChatServer, monkeypatch: pytest.MonkeyPatch, model: "str | Model"
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    log = run(str(write_task(tmp_path, LETTER)), tmp_path, "openai/gpt-5-mini", model_base_url=echoing.url)
    again = retry(log, model=model, max_retries=0)
    assert [asked["model"] for asked in echoing.requests] == ["gpt-5-mini", "gpt-4o"]
    assert (again.status, again.eval.model_base_url) == ("success", echoing.url)


def test_a_model_without_an_address_is_asked_at_that_of_the_call(tmp_path: Path, echoing: ChatServer) -> None:
    task = make_task(samples("a"), model=Model("openai/gpt-4o"))
    log = run(task, tmp_path, None, model_base_url=echoing.url, max_retries=0)
    assert (len(echoing.requests), log.eval.model_base_url) == (1, echoing.url)
