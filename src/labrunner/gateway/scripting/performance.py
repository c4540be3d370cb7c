"""Which answer of a script a request gets, and what it says in any protocol. Pure."""

from dataclasses import dataclass

import msgspec

from labrunner.experiment.model_script import ModelScript, ScriptedAnswer, ScriptedUsage
from labrunner.gateway.dialects.speech import Declined, Tokens, WantedCall
from labrunner.gateway.scripting.stagecue import StageCue, make_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One turn of the model, before it has the form of a protocol."""

    id: str
    model: str
    text: str
    calls: tuple[WantedCall, ...]
    tokens: Tokens
    delay_s: float = 0.0

    @property
    def words(self) -> list[str]:
        """The text in pieces, as a stream has them."""
        return [word for word in self.text.replace(" ", " \0").split("\0") if word]


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """What a request gets instead: an error of the script's own, or that it has no answer."""

    told: Declined
    delay_s: float = 0.0


def find_line(script: ModelScript, cue: StageCue, size: int) -> Line | Miss:
    """Find what a script says to a request of so many bytes."""
    found = _find_place(script, cue)
    if found is None:
        told = f"the script has no conversation for the model '{cue.model[:80]}' and a first message "
        return _miss(f"{told}'{cue.opening[:80]}'")
    conversation, turn = found
    answers = script.conversations[conversation].answers
    if turn >= len(answers):
        told = f"the script's conversation {conversation} has {len(answers)} answers"
        return _miss(f"{told}, and the model has spoken {turn} times already")
    return _make_line(answers[turn], make_id(conversation, turn), cue, size)


def _find_place(script: ModelScript, cue: StageCue) -> tuple[int, int] | None:
    if cue.goes_on is not None and cue.goes_on[0] < len(script.conversations):
        return cue.goes_on[0], cue.goes_on[1] + 1 + cue.turn
    for number, each in enumerate(script.conversations):
        if (each.match is None or each.match in cue.opening) and each.model in (None, cue.model):
            return number, cue.turn
    return None


def _miss(message: str) -> Miss:
    return Miss(told=Declined(status=404, kind="not_found_error", message=message))


def _make_line(answer: ScriptedAnswer, name: str, cue: StageCue, size: int) -> Line | Miss:
    if answer.error is not None:
        error = answer.error
        told = Declined(status=error.status, kind=error.kind, message=error.message)
        return Miss(told=told, delay_s=answer.delay_s)
    calls = tuple(
        WantedCall(
            id=f"call_{name}_{number}",
            name=call.name,
            arguments=msgspec.json.encode(call.arguments).decode(),
        )
        for number, call in enumerate(answer.tool_calls)
    )
    generated = len(answer.text) + sum(len(call.name) + len(call.arguments) for call in calls)
    usage = answer.usage or ScriptedUsage(input=estimate(size), output=estimate(generated))
    tokens = Tokens(
        input=usage.input, output=usage.output, cache_read=usage.cache_read, reasoning=usage.reasoning
    )
    return Line(
        id=name, model=cue.model, text=answer.text, calls=calls, tokens=tokens, delay_s=answer.delay_s
    )


def estimate(size: int) -> int:
    """Tokens of so many characters, about."""
    return -(-size // 4)
