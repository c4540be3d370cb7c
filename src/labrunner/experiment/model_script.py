"""A mock model's script: canned answers, of Python tasks (`mock/FILE.json`) and of `models:` (`script`).

Rules: strict. Which answer is given follows from the conversation alone, never from the order in which trials
ask; only how often a request has failed already is counted.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from labrunner.errors import InputError


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that a scripted answer asks for."""

    function: str
    arguments: dict[str, Any] = {}  # any JSON: the tool's own


class ScriptedFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a scripted request fails."""

    status: int
    times: int | None = None
    """How often for each sample, before it goes well; None: always."""
    retry_after_s: float | None = None
    message: str = "as the script says"


class ScriptedAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer, and when it is given: the first one that fits is."""

    when: str | None = None
    """Text of what was said to the model since it last spoke."""
    sample: str | None = None
    """Text that the user says before the model first speaks."""
    turn: int | None = None
    """How many answers there were before, from 0."""
    model: str | None = None
    """The model that is asked for, where a client names one."""
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    fail: ScriptedFailure | None = None
    wait_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """Only of Python tasks: an entry of `models:` has `prices`."""


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mock model's script: a JSON file `{"answers": [...]}`."""

    answers: tuple[ScriptedAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What of a conversation decides which answer is given."""

    first: str
    """What the user says before the model first speaks."""
    last: str
    """What is to be answered: all that was said to the model since it last spoke."""
    turn: int
    """How many answers there were before."""
    model: str | None = None


class Prompter:
    """Finds answers in a script, and remembers what has failed often enough."""

    def __init__(self, script: Script) -> None:
        """Take the script."""
        self._answers = script.answers
        self._failed: Counter[tuple[int, str]] = Counter()

    def find(self, moment: Moment) -> tuple[int, ScriptedAnswer] | None:
        """The first answer that fits, with its number; None where none does."""
        for number, answer in enumerate(self._answers):
            if (
                (answer.when is None or answer.when in moment.last)
                and (answer.sample is None or answer.sample in moment.first)
                and (answer.turn is None or answer.turn == moment.turn)
                and (answer.model is None or answer.model == moment.model)
            ):
                return number, answer
        return None

    def find_failure(self, number: int, moment: Moment) -> ScriptedFailure | None:
        """How an answer fails this time, if it does."""
        failure = self._answers[number].fail
        if failure is None:
            return None
        self._failed[number, moment.first] += 1
        is_over = failure.times is not None and self._failed[number, moment.first] > failure.times
        return None if is_over else failure

    def get(self, number: int) -> ScriptedAnswer | None:
        """An answer by its number."""
        return self._answers[number] if number < len(self._answers) else None


def describe_miss(moment: Moment) -> str:
    """Say that a script has no answer."""
    return f"the script has no answer for turn {moment.turn} after {moment.last[:80]!r}"


def read_script(path: Path) -> Script:
    """Read a script. Raises InputError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Script)
    except OSError as error:
        told = f"the script of a mock model can't be read, {path.resolve()}"
        raise InputError(str(path), f"{told}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InputError(str(path), f"is no script of a mock model: {error}") from error
