"""Providers' models through pydantic-ai: names to clients, our messages to theirs and back.

Heavy to import, so it is imported when the first real model is asked. Retries are the pool's: the clients'
own are switched off.
"""

import json
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, cast

from labrunner.errors import InputError
from labrunner.gateway.dialects.bounds import HIDDEN_PROMPT
from labrunner.gateway.dialects.speech import Tokens
from labrunner.gateway.metering.pricelist import Cost, PriceList
from labrunner.solve.models.backend import QUOTA, ModelRequest, ProviderTrouble
from labrunner.solve.models.modelname import ModelName
from labrunner.solve.values.messages import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    StopReason,
    ToolCall,
)

try:
    from pydantic_ai import exceptions, models
    from pydantic_ai import messages as theirs
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import UnsupportedSettingWarning
    from pydantic_ai.providers import infer_provider, infer_provider_class
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.usage import RequestUsage
except ImportError as error:
    raise InputError(
        "model", f"providers' models need pydantic-ai ({error}); install it: pip install 'labrunner[models]'"
    ) from error

_ALIASES: Final = {"openai": "openai-chat", "azureai": "azure", "vertex": "google-cloud", "grok": "xai"}
"""`openai` speaks the chat protocol, which every compatible server understands."""
_STOPS: Final[dict[str | None, StopReason]] = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
}
_TRANSIENT: Final = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
)


class ProviderBackend:
    """One provider's model."""

    def __init__(self, model: models.Model, name: str) -> None:
        """Take pydantic-ai's model."""
        self._model = model
        self._name = name

    async def request(self, request: ModelRequest) -> ModelOutput:
        """Make one request."""
        messages, settings, parameters = to_theirs(request.messages), _settings(request), _parameters(request)
        try:
            response = await model_request(
                self._model,
                messages,
                model_settings=settings,
                model_request_parameters=parameters,
                instrument=False,
            )
        except exceptions.ModelContextWindowExceededError as error:
            return ModelOutput.from_content(self._name, str(error), stop_reason="model_length")
        except exceptions.ModelAPIError as error:
            raise _trouble(error) from error
        except exceptions.UnexpectedModelBehavior as error:
            raise ProviderTrouble("bad_answer", str(error), is_transient=True) from error
        except (IndexError, KeyError, AttributeError, TypeError) as error:
            # An answer without what every answer has, such as choices; the library does not expect that.
            told = f"its answer can't be read: {type(error).__name__}: {error}"
            raise ProviderTrouble("bad_answer", told, is_transient=True) from error
        return from_theirs(response, self._name)

    def has_price(self) -> bool:
        """Whether anybody knows what its answers cost."""
        probe = theirs.ModelResponse(
            [],
            usage=RequestUsage(input_tokens=1, output_tokens=1),
            model_name=self._model.model_name,
            provider_name=self._model.system,
        )
        return _price(probe) is not None

    def bound_cost(self, request: ModelRequest) -> Decimal | None:
        """What a request can cost: no tokeniser makes more tokens than a text has bytes."""
        said = theirs.ModelMessagesTypeAdapter.dump_json(to_theirs(request.messages))
        tools = sum(
            len(each.name) + len(each.description) + len(str(each.parameters)) for each in request.tools
        )
        most = Tokens(input=len(said) + tools + HIDDEN_PROMPT, output=request.config.max_tokens or 0)
        prices = PriceList(provider=self._model.system, base_url=self._model.base_url, own={})
        cost = prices.bound(self._model.model_name, most, datetime.now(UTC))
        return None if cost is None else cost.usd

    async def close(self) -> None:
        """Close the client, where there is one."""
        client = getattr(self._model, "client", None)
        close = getattr(client, "close", None)
        if close is not None:
            result = close()
            if hasattr(result, "__await__"):
                await result


def make_provider(name: ModelName, base_url: str | None) -> ProviderBackend:
    """Make the client for a model. Raises InputError: unknown names, missing keys."""
    _expect_no_retries()
    provider = _ALIASES.get(name.provider, name.provider)

    def make(kind: str) -> Any:  # noqa: ANN401 - pydantic-ai's own
        provider_class: Any = infer_provider_class(kind)
        return provider_class(base_url=base_url)

    try:
        model = models.infer_model(f"{provider}:{name.model}", make if base_url else infer_provider)
    except (exceptions.UserError, ValueError, ImportError, TypeError) as error:
        # What follows the first sentence advertises other ways of using the library.
        told = str(error).partition(". ")[0]
        raise InputError("model", f"{name}: {told[:1].lower()}{told[1:].rstrip('.')}") from error
    return ProviderBackend(model, str(name))


def _expect_no_retries() -> None:
    """Take no warning of a model that knows no retries of its own: that is what is wanted.

    Once and for good. Filters are the whole process's: requests that set them and put them back would do so
    in any order, and after each change Python warns again of all that it has warned of.
    """
    if not any(each[2] is UnsupportedSettingWarning for each in warnings.filters):
        warnings.filterwarnings("ignore", category=UnsupportedSettingWarning)


def to_theirs(messages: Sequence[ChatMessage]) -> list[theirs.ModelMessage]:
    """Our conversation as pydantic-ai's: what is said between two answers is one request."""
    converted: list[theirs.ModelMessage] = []
    parts: list[theirs.ModelRequestPart] = []
    for message in messages:
        match message:
            case ChatMessageSystem(content=content):
                parts.append(theirs.SystemPromptPart(content))
            case ChatMessageUser(content=content):
                parts.append(theirs.UserPromptPart(content))
            case ChatMessageTool(content=content, tool_call_id=call_id, function=function, error=error):
                text = error.message if error is not None else content
                parts.append(theirs.ToolReturnPart(function or "tool", text, call_id or ""))
            case ChatMessageAssistant():
                if parts:
                    converted.append(theirs.ModelRequest(parts))
                    parts = []
                converted.append(_answer_to_theirs(message))
    if parts:
        converted.append(theirs.ModelRequest(parts))
    return converted


def from_theirs(response: theirs.ModelResponse, name: str) -> ModelOutput:
    """Pydantic-ai's answer as ours."""
    texts = [part.content for part in response.parts if isinstance(part, theirs.TextPart)]
    thoughts = [part.content for part in response.parts if isinstance(part, theirs.ThinkingPart)]
    calls = [_call(part) for part in response.parts if isinstance(part, theirs.ToolCallPart)]
    message = ChatMessageAssistant(
        content="".join(texts),
        tool_calls=calls or None,
        model=response.model_name or name,
        reasoning="\n".join(thoughts) or None,
        native=response,
    )
    stop: StopReason = "tool_calls" if calls else _STOPS.get(response.finish_reason, "stop")
    cost = _price(response)
    return ModelOutput(
        model=response.model_name or name,
        message=message,
        stop_reason=stop,
        usage=_usage(response, cost),
        price_source=cost.source if cost else None,
        priced_on=cost.priced_on if cost else None,
    )


def _answer_to_theirs(message: ChatMessageAssistant) -> theirs.ModelResponse:
    native = message.native
    # What a provider signed must go back as it came; once edited, only the words are left of it.
    if isinstance(native, theirs.ModelResponse):
        said = from_theirs(native, "").message
        if (said.content, said.tool_calls) == (message.content, message.tool_calls):
            return native
    parts: list[theirs.ModelResponsePart] = [theirs.TextPart(message.content)] if message.content else []
    calls = message.tool_calls or ()
    parts += [theirs.ToolCallPart(call.function, call.arguments, call.id) for call in calls]
    return theirs.ModelResponse(parts)


def _call(part: theirs.ToolCallPart) -> ToolCall:
    arguments = part.args
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError as error:
            return ToolCall(part.tool_call_id, part.tool_name, {}, f"the arguments are not JSON: {error}")
    if not isinstance(arguments, dict):
        found = type(arguments).__name__
        problem = None if arguments is None else f"the arguments must be a map, found {found}"
        return ToolCall(part.tool_call_id, part.tool_name, {}, problem)
    return ToolCall(part.tool_call_id, part.tool_name, arguments)


def _usage(response: theirs.ModelResponse, cost: Cost | None) -> ModelUsage:
    usage = response.usage
    return ModelUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        input_tokens_cache_read=usage.cache_read_tokens,
        input_tokens_cache_write=usage.cache_write_tokens,
        reasoning_tokens=int(usage.details.get("reasoning_tokens", 0)),
        cost_usd=None if cost is None else float(cost.usd),
    )


def _price(response: theirs.ModelResponse) -> Cost | None:
    """What an answer cost, by the gateway's price list; None where nobody knows."""
    usage = response.usage
    if not response.model_name or usage.unmeasured_requests:
        return None
    prices = PriceList(provider=response.provider_name, base_url=response.provider_url, own={})
    tokens = Tokens(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write=usage.cache_write_tokens,
        reasoning=int(usage.details.get("reasoning_tokens", 0)),
    )
    tier = (response.provider_details or {}).get("service_tier")
    return prices.price(
        response.model_name, tokens, response.timestamp, tier=tier if isinstance(tier, str) else None
    )


def _settings(request: ModelRequest) -> ModelSettings:
    config = request.config
    settings: dict[str, Any] = {
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
        "top_p": config.top_p,
        "top_k": config.top_k,
        "seed": config.seed,
        "stop_sequences": list(config.stop_seqs) if config.stop_seqs else None,
        "frequency_penalty": config.frequency_penalty,
        "presence_penalty": config.presence_penalty,
        "parallel_tool_calls": config.parallel_tool_calls,
        "tool_choice": _tool_choice(request),
        "timeout": config.timeout,
        "max_retries": 0,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    return cast("ModelSettings", {**given, **(config.extra or {})})  # a provider's own settings are not in it


def _tool_choice(request: ModelRequest) -> Any:  # noqa: ANN401 - pydantic-ai's own
    if request.tool_choice is None or not request.tools:
        return None
    words = {"auto": "auto", "none": "none", "any": "required"}
    return words.get(request.tool_choice, [request.tool_choice])


def _parameters(request: ModelRequest) -> models.ModelRequestParameters:
    tools = [
        ToolDefinition(
            name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
        )
        for tool in request.tools
    ]
    return models.ModelRequestParameters(function_tools=tools, allow_text_output=True)


def _trouble(error: exceptions.ModelAPIError) -> ProviderTrouble:
    if isinstance(error, exceptions.ModelHTTPError):
        reason = f"http_{error.status_code}"
        is_transient = error.status_code in {408, 409, 429} or error.status_code >= 500
    elif isinstance(error, _TRANSIENT):
        reason = "timeout" if isinstance(error, exceptions.ModelTimeoutError) else "connection"
        is_transient = True
    else:  # it answered, but with nothing that can be read
        reason, is_transient = "bad_answer", True
    if isinstance(error, exceptions.ModelQuotaExceededError):
        reason, is_transient = QUOTA, False
    return ProviderTrouble(reason, str(error), is_transient=is_transient, retry_after_s=error.retry_after)
