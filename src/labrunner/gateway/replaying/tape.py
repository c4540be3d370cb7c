"""The recorded calls of an attempt, from which the calls of another one are answered.

Rules: a recorded call answers once, and only a request that is the same: to the same entry, of the same
protocol, model and body, but for fields of which no model hears. Of several the one with the same ordinal
answers, else the first that is left: calls that are made at the same time arrive in any order. Where answers
are reused and not replayed strictly, only whole ones are given.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, cast

from labrunner.errors import DamagedRun
from labrunner.experiment.run_policy import ReplayMode
from labrunner.gateway.dialects.speech import Ask
from labrunner.gateway.recording.bodies import keep_request, put_together, unpack
from labrunner.gateway.recording.calljournal import read_calls
from labrunner.gateway.replaying.bodyindex import index_bodies
from labrunner.gateway.replaying.difference import describe_difference
from labrunner.records.encoding import canonical
from labrunner.records.facts.model_call import BodyRow, CallRow

_UNHEARD: Final = ("metadata", "user", "safety_identifier", "prompt_cache_key")
"""Fields of requests that are for the provider's books: clients put a new number there each time."""
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TapedCall:
    """One recorded call, and where its bodies are."""

    row: CallRow
    bodies: Mapping[str, BodyRow]
    key: _Key
    """The same for requests that are the same."""
    is_whole: bool
    """Whether a provider answered, all of it is kept, and none of it was masked."""

    @property
    def ordinal(self) -> int:
        """Its number within its attempt."""
        return self.row.ordinal

    @property
    def origin(self) -> str:
        """The call that a provider answered: one that was itself replayed names it."""
        return self.row.replayed or self.row.call_id

    def read_answer(self) -> bytes:
        """What came, not compressed. Raises DamagedRun, StoreError."""
        if self.row.answer is None:
            return b""
        if self.row.answer not in self.bodies:
            raise DamagedRun(f"the answer of the recorded call {self.row.call_id} is not kept")
        return cast("bytes", unpack(self.bodies[self.row.answer]))  # answers are kept as bytes

    def read_request(self) -> object:
        """What was sent; None where that is not kept."""
        try:
            return None if self.row.request is None else put_together(self.row.request, self.bodies)
        except KeyError:
            return None


class _HasOrdinal(Protocol):
    @property
    def ordinal(self) -> int: ...


_Call = TypeVar("_Call", bound=_HasOrdinal)


def prefer(calls: Sequence[_Call], ordinal: int) -> _Call:
    """Of several calls that would do, the one with the same number, else the first."""
    return next((each for each in calls if each.ordinal == ordinal), calls[0])


@dataclass(slots=True, kw_only=True)
class Tape:
    """What is left to answer with."""

    mode: ReplayMode
    calls: Sequence[TapedCall]
    """In the order in which they are preferred."""
    used: set[str] = field(default_factory=set)
    """Origins of calls that have answered."""

    def take(self, ask: Ask, provider: str, ordinal: int) -> TapedCall | None:
        """The recorded call that answers a request; None for a miss."""
        wanted = _make_key(ask, provider)
        fitting = [each for each in self._find_left() if each.key == wanted]
        if not fitting:
            return None
        found = prefer(fitting, ordinal)
        self.used.add(found.origin)
        return found

    def describe_miss(self, ask: Ask, provider: str, ordinal: int) -> str:
        """Say in what a request is not the one that was recorded. Raises StoreError."""
        name = f"call {ordinal + 1}, {ask.purpose} by {provider}"
        left = [each for each in self._find_left() if each.row.provider == provider]
        if not left:
            return f"{name}: all {len(self.calls)} recorded calls have been answered, and this is one more"
        near = prefer(left, ordinal)
        now = canonical.decode_plain(ask.body) if ask.body else None
        told = describe_difference(
            _describe(near.row.protocol, near.row.purpose, near.row.model, near.read_request()),
            _describe(ask.protocol, ask.purpose, ask.model, now),
        )
        return f"{name} is not what was recorded as call {near.row.ordinal + 1}: {told or 'only in its kind'}"

    def _find_left(self) -> Iterable[TapedCall]:
        return (each for each in self.calls if each.origin not in self.used and self._is_usable(each))

    def _is_usable(self, call: TapedCall) -> bool:
        return self.mode == "strict" or call.is_whole


def open_tape(mode: ReplayMode, folders: Iterable[Path], own: Path) -> Tape:
    """Open the recordings of these attempts, the preferred one first; goes on where `own` calls are.

    Raises DamagedRun.
    """
    calls = [
        _make_taped(row, bodies)
        for folder in folders
        for bodies in [index_bodies(folder)]
        for row in sorted(read_calls(folder), key=lambda row: row.ordinal)
    ]
    used = {row.replayed for row in read_calls(own) if row.replayed is not None}
    return Tape(mode=mode, calls=calls, used=used)


def _make_taped(row: CallRow, bodies: Mapping[str, BodyRow]) -> TapedCall:
    asked = bodies.get(row.request) if row.request is not None else None
    answer = bodies.get(row.answer) if row.answer is not None else None
    digest = _digest(row.request, asked)
    return TapedCall(
        row=row,
        bodies=bodies,
        key=(row.provider, row.protocol, row.purpose, row.model, row.streaming, digest),
        is_whole=row.end == "answered" and answer is not None and not answer.masked,
    )


def _make_key(ask: Ask, provider: str) -> _Key:
    kept = keep_request(ask.body) if ask.body else None
    digest = _digest(kept.digest, kept.rows[-1]) if kept else None
    return (provider, ask.protocol, ask.purpose, ask.model, ask.is_streaming, digest)


def _digest(digest: str | None, body: BodyRow | None) -> str | None:
    """What is the same for requests that say the same to a model.

    One in which a secret was masked is known by the digest of what passed.
    """
    if body is None or body.masked or not isinstance(body.body, dict):
        return digest
    if not any(name in body.body for name in _UNHEARD):
        return digest
    return canonical.digest({name: value for name, value in body.body.items() if name not in _UNHEARD})


def _describe(protocol: str, purpose: str, model: str | None, body: object) -> dict[str, Any]:
    """A request as differences name its places; the body's own fields stand on top."""
    asked = {"(protocol)": protocol, "(purpose)": purpose, "model": model}
    if not isinstance(body, dict):
        return {**asked, "(body)": body}
    return {**asked, **{name: value for name, value in body.items() if name not in _UNHEARD}}
