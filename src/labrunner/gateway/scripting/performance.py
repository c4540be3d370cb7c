"""Which answer of a script a request gets, and what it says in any protocol."""

from dataclasses import dataclass, replace

import msgspec

from labrunner.experiment.model_script import Moment, Prompter, ScriptedAnswer, describe_miss
from labrunner.gateway.dialects.speech import Declined, Tokens, WantedCall
from labrunner.gateway.scripting.cue import Cue, make_id
from labrunner.records.facts.model_call import SCRIPT_MISS


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenLine:
    """One turn of the model, before it has the form of a protocol."""

    id: str
    model: str
    text: str
    calls: tuple[WantedCall, ...]
    tokens: Tokens
    wait_s: float = 0.0

    @property
    def words(self) -> list[str]:
        """The text in pieces, as a stream has them."""
        return [word for word in self.text.replace(" ", " \0").split("\0") if word]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptMiss:
    """What a request gets instead: an error of the script's own, or that it has no answer."""

    told: Declined
    wait_s: float = 0.0
    retry_after_s: float | None = None


def find_line(prompter: Prompter, cue: Cue, size: int) -> SpokenLine | ScriptMiss:
    """Find what a script says to a request of so many bytes."""
    moment = _place(prompter, cue)
    found = prompter.find(moment)
    if found is None:
        told = Declined(status=404, kind=SCRIPT_MISS, message=describe_miss(moment))
        return ScriptMiss(told=told)
    number, answer = found
    if (fail := prompter.find_failure(number, moment)) is not None:
        told = Declined(status=fail.status, kind="api_error", message=fail.message)
        return ScriptMiss(told=told, wait_s=answer.wait_s, retry_after_s=fail.retry_after_s)
    return _make_line(answer, make_id(number, moment.turn), moment.model or "", size)


def _place(prompter: Prompter, cue: Cue) -> Moment:
    """A request that only names the answer before it belongs to the same sample."""
    before = prompter.get(cue.follows[0]) if cue.follows is not None else None
    if before is None or cue.follows is None:
        return cue.moment
    return replace(cue.moment, first=before.sample or "", turn=cue.follows[1] + 1 + cue.moment.turn)


def _make_line(answer: ScriptedAnswer, name: str, model: str, size: int) -> SpokenLine:
    calls = tuple(
        WantedCall(
            id=f"call_{name}_{number}",
            name=call.function,
            arguments=msgspec.json.encode(call.arguments).decode(),
        )
        for number, call in enumerate(answer.tool_calls)
    )
    tokens = Tokens(input=answer.input_tokens, output=answer.output_tokens)
    if not tokens.total:
        generated = len(answer.text) + sum(len(call.name) + len(call.arguments) for call in calls)
        tokens = Tokens(input=estimate(size), output=estimate(generated))
    return SpokenLine(
        id=name, model=model, text=answer.text, calls=calls, tokens=tokens, wait_s=answer.wait_s
    )


def estimate(size: int) -> int:
    """Tokens of so many characters, about."""
    return size // 4 + 1
