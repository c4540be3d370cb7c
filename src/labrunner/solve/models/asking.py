"""Models as solvers and scorers see them: a name, settings, and `generate`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labrunner.experiment.addresses import reveal_address
from labrunner.gateway.metering.purse import Hold
from labrunner.gateway.replaying.spoken import digest_asked
from labrunner.solve.models.backend import Backend, ModelRequest
from labrunner.solve.models.mock import Answering, MockBackend, make_mock
from labrunner.solve.models.model_pool import Asker
from labrunner.solve.models.modelname import parse_model_name
from labrunner.solve.models.surroundings import Running, maybe_running, running
from labrunner.solve.values.config import NO_SETTINGS, GenerateConfig, make_config
from labrunner.solve.values.messages import ChatMessage, ChatMessageSystem, ModelOutput, as_messages
from labrunner.solve.values.meter import LimitExceeded
from labrunner.solve.values.tool import Tool, as_tool


@dataclass(frozen=True, slots=True)
class Model:
    """A model by name. Making one connects to nobody."""

    name: str
    """`provider/model`."""
    config: GenerateConfig = NO_SETTINGS
    base_url: str | None = None
    backend: Callable[[], Backend] | None = None
    """Makes whoever answers, where the name alone does not say it."""

    @property
    def provider(self) -> str:
        """Whose connections are counted."""
        return parse_model_name(self.name).provider

    @property
    def key(self) -> object:
        """What tells models with a client of their own apart."""
        return (self.name, self.base_url, self.backend)

    def make_backend(self) -> Backend:
        """Make whoever answers. Raises InputError where that can't be."""
        if self.backend is not None:
            return self.backend()
        name = parse_model_name(self.name)
        if name.is_mock:
            return make_mock(name.model)
        from labrunner.solve.models.provider import make_provider  # heavy

        return make_provider(name, reveal_address(self.base_url, name.provider))

    async def generate(
        self,
        input: str | ChatMessage | Sequence[ChatMessage],
        tools: Sequence[Tool | Callable[..., Any]] = (),
        tool_choice: str | None = None,
        config: GenerateConfig | None = None,
    ) -> ModelOutput:
        """Ask once; tools that the answer asks for are not run."""
        attempt = running()
        settings = self.config.merge(config)
        request = ModelRequest(
            messages=_with_system(as_messages(input), settings),
            tools=[as_tool(each).info for each in tools],
            tool_choice=tool_choice,
            config=settings,
        )
        return await _ask(self, request, attempt)

    def describe(self) -> object:
        """Name and what shapes its answers."""
        return {"name": self.name, "config": self.config.measured()}


def get_model(
    model: "str | Model | None" = None,
    config: GenerateConfig | None = None,
    base_url: str | None = None,
    **settings: Any,  # noqa: ANN401 - fields of GenerateConfig
) -> Model:
    """A model by name; without one, the model of the trial that this code belongs to."""
    asked = (config or NO_SETTINGS).merge(make_config(settings, "get_model"))
    if isinstance(model, Model):
        return replace(model, config=model.config.merge(asked))
    if model is not None:
        return Model(str(parse_model_name(model)), asked, base_url)
    attempt = maybe_running()
    found = None if attempt is None else attempt.model
    if found is None:
        raise ValueError("no model is given: name one, or start the run with model=...")
    assert isinstance(found, Model)  # there is no other kind
    merged = found.config.merge(asked)
    return found if merged is found.config else replace(found, config=merged)


def mock_model(answer: Answering, name: str = "mock/function") -> Model:
    """A model that answers with a function of the request: a text, a `ModelOutput`, or trouble raised."""
    return Model(name, backend=lambda: MockBackend(answer, name))


async def _ask(model: Model, request: ModelRequest, attempt: Running) -> ModelOutput:
    attempt.meter.check_spent()
    bound, tape = None, attempt.tape
    if attempt.meter.limits_money and tape is not None and tape.mode == "strict":
        # What a provider would take need not be known, nor be the same: it ended where it ended then.
        if (told := tape.find_cap(model.name, digest_asked(request.describe()))) is not None:
            raise LimitExceeded("cost", told)
    elif attempt.meter.limits_money:
        bound = await attempt.call_home(lambda: attempt.pool.bound_cost(model, request))
    async with attempt.meter.holding(bound, is_whole=request.config.max_tokens is not None) as hold:
        return await _ask_home(model, request, attempt, hold)


async def _ask_home(model: Model, request: ModelRequest, attempt: Running, hold: Hold | None) -> ModelOutput:
    transcript = attempt.transcript
    asked = transcript.number(request.messages)
    asker = Asker(
        meter=attempt.meter,
        transcript=transcript,
        calls=attempt.calls,
        tape=attempt.tape,
        lender=attempt.lender,
    )
    call = await attempt.call_home(lambda: attempt.pool.ask(model, request, asker))
    output = call.output
    assert output is not None  # else something was raised
    output.message.model = output.message.model or output.model
    (said,) = transcript.number([output.message])
    transcript.add(
        "model",
        model=model.name,
        **transcript.go_on("input", asked, said),
        tools=[each.name for each in request.tools],
        config=request.config.measured(),
        output=said,
        stop_reason=output.stop_reason,
        usage=output.usage,
        seconds=round(output.time or 0.0, 6),
        call_id=call.call_id,
        request=call.request,
        answer=call.answer,
    )
    attempt.meter.count(output.usage, hold)
    return output


def _with_system(messages: list[ChatMessage], config: GenerateConfig) -> list[ChatMessage]:
    text = config.system_message
    if text is None or any(isinstance(message, ChatMessageSystem) for message in messages):
        return messages
    return [ChatMessageSystem(text), *messages]
