"""What travels between a run's coordinator and a node's worker: bytes, decoded strictly at either end.

Rule: nothing of ours is pickled: what Ray sees is texts and bytes.
"""

from typing import Any, Final, TypeVar

import msgspec

from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion
from labrunner.sandbox.door import Survivor
from labrunner.trial.assignment import Assignment

T = TypeVar("T")


class WorkerHello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who a worker is, and the key that secrets are sealed for."""

    version: str
    host: str
    key: bytes


class Charge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run that a worker is to carry out attempts of."""

    run_id: str
    place: str
    """The run's directory in one word: the same for every owner of the run."""
    node: str
    """How the node is called."""
    experiment: str
    """The parcel that it is in."""
    parcels: dict[str, str]
    """By each path of the experiment, where what lies there is among the node's parcels."""
    planned: int
    carrier: "CarrierTold | None" = None
    """Set where attempts are carried out by code that was delivered."""


class CarrierTold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who carries attempts out, and what it is given."""

    name: str
    words: bytes
    parcel: str
    """The files that it is given, among the node's parcels."""


class Begun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node has to give."""

    places: int
    trials_dir: str


class AttemptOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attempt to be carried out, or gone on with."""

    assignment: Assignment
    survivor: Survivor | None = None


class BarrierTold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="barrier"):
    """An agent has ended; nothing goes on before this is acknowledged."""

    seq: int
    note: BarrierNote


class GraderTold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="grader"):
    """A grader is about to start; it does not before this is acknowledged."""

    seq: int


class GoneTold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gone"):
    """Nothing of the attempt runs any more."""


class EventTold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="event"):
    """An event of the attempt."""

    seq: int
    line: bytes


class ConnectionAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="connect"):
    """A request of the attempt waits for one of so many connections; it has one once this is acknowledged."""

    seq: int
    provider: str
    most: int


class ConnectionLeft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="leave"):
    """That connection is needed no more, or waited for no more."""

    seq: int


class PieceTold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="piece"):
    """A piece of what the attempt left."""

    piece: bytes
    digest: bytes
    seq: int | None = None
    """Set where the next one waits for an acknowledgement: so much may be under way, and no more."""


class Ended(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ended"):
    """How the attempt ended; all of its files have been told."""

    completion: Completion


class NodeFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="broken"):
    """What was asked can't be done, or was cancelled."""

    reason: str
    message: str
    traceback: str | None = None
    """Set where our own code is to blame."""


Told = (
    BarrierTold
    | GraderTold
    | GoneTold
    | EventTold
    | ConnectionAsked
    | ConnectionLeft
    | PieceTold
    | Ended
    | NodeFailure
)
_encoder: Final = msgspec.msgpack.Encoder()


def encode(value: Any) -> bytes:  # noqa: ANN401 - any message, or what a door answers
    """Make bytes of a message."""
    return _encoder.encode(value)


def decode(data: bytes, kind: type[T]) -> T:
    """Make a message of bytes. Raises ValueError for any other."""
    return msgspec.msgpack.decode(data, type=kind)


_told: Final[msgspec.msgpack.Decoder[Told]] = msgspec.msgpack.Decoder(Told)


def decode_told(data: bytes) -> Told:
    """The same for what a worker tells of an attempt."""
    return _told.decode(data)
