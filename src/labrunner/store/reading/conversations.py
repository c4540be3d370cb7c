"""What was said in one attempt, in one form for every agent: the events of a transcript.

Rules: a Python task's own transcript counts where there is one; else the attempt's calls are told. Calls of a
finished attempt are what its row says, or the run is damaged.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from labrunner.gateway.recording.calljournal import BODIES, CALLS
from labrunner.gateway.telling.call_events import CallTeller, tell_calls
from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.records.facts.model_call import BodyRow, CallRow
from labrunner.store.reading.events import read_transcript
from labrunner.store.reading.logends import LogEnd
from labrunner.store.reading.recordings import read_attempt_bodies, read_attempt_calls

Plain = dict[str, Any]  # an event, as transcripts have it
_Row = TypeVar("_Row", CallRow, BodyRow)
_calls: Final = msgspec.json.Decoder(CallRow)
_bodies: Final = msgspec.json.Decoder(BodyRow)


def read_said(folder: Path, logs: Sequence[FileRef] | None = None) -> list[Plain]:
    """Every event of an attempt's transcript; `logs` are those that its row names. Raises DamagedRun."""
    own = [canonical.decode_plain(bytes(line)) for line in read_transcript(folder)]
    if own:
        return [event for event in own if isinstance(event, dict) and "event" in event]
    calls = read_attempt_calls(folder, logs)
    return list(tell_calls(calls, read_attempt_bodies(folder, logs))) if calls else []


def write_said(events: Sequence[Plain]) -> bytes:
    """Events as a transcript's file has them."""
    return b"".join(canonical.encode_line(event) for event in events)


@dataclass(slots=True)
class LiveCalls:
    """Follows the calls of one attempt, and tells them as they end."""

    folder: Path
    _teller: CallTeller = field(default_factory=CallTeller)
    _known: dict[str, BodyRow] = field(default_factory=dict)
    _logs: dict[str, LogEnd] = field(default_factory=dict)

    def take(self) -> bytes:
        """Events of the calls that ended since, one a line."""
        # A call's bodies are written before it is: read in this order, none is missing.
        calls = list(_decode_all(_calls, self._take_lines(CALLS)))
        if not calls:
            return b""
        self._known |= {body.digest: body for body in _decode_all(_bodies, self._take_lines(BODIES))}
        calls.sort(key=lambda call: call.ordinal)
        return b"".join(write_said(self._teller.tell(call, self._known)) for call in calls)

    def _take_lines(self, name: str) -> list[bytes]:
        log = self._logs.setdefault(name, LogEnd(self.folder / name))
        data = b""
        while more := log.take():
            data += more
        return data.splitlines()


def _decode_all(decoder: "msgspec.json.Decoder[_Row]", lines: Sequence[bytes]) -> Iterator[_Row]:
    """Rows of lines; what is none goes when the attempt is collected."""
    for line in lines:
        with suppress(msgspec.DecodeError, RecursionError):
            yield decoder.decode(line)
