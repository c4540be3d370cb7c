"""Names of runs, trials and dispatches.

A trial's id comes from variant, task and replication, never from the run: the same trial has the same
id in every run of an experiment, and it is safe as a folder's name.

Tokens are drawn 64 at a time: each call of the system lets other threads in, and drawn one by one they make
trials that do nothing take 1.18 times the processor time (`bench shortcuts`).
"""

import hashlib
import os
import re
import secrets
from datetime import datetime
from typing import Annotated, Final

import msgspec

RUN_ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._=,+-]{0,127}$"
_ALPHABET: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._=-]+")

_tokens: Final[list[str]] = []
os.register_at_fork(after_in_child=_tokens.clear)  # nobody else's tokens

Name = Annotated[str, msgspec.Meta(min_length=1)]
Index = Annotated[int, msgspec.Meta(ge=0)]
Ordinal = Annotated[int, msgspec.Meta(ge=1)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
ArtifactUri = Annotated[str, msgspec.Meta(pattern=r"^artifact://sha256/[0-9a-f]{64}$")]


class Ids(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Identity that nearly every record carries."""

    run_id: str
    trial_id: Name
    variant_id: Name
    task_id: Name
    repl_idx: Index


def make_run_id(name: str, now: datetime) -> str:
    """Name a run: UTC time, experiment, 8 random characters."""
    mark = "".join(secrets.choice(_ALPHABET) for _ in range(8))
    return f"{now:%Y-%m-%dT%H-%M-%S}_{_slug(name, 60) or 'run'}_{mark}"


def make_trial_id(variant_id: str, task_id: str, repl_idx: int) -> str:
    """Name a trial so that people recognise it and file systems accept it."""
    mark = hashlib.sha256(f"{variant_id}\0{task_id}\0{repl_idx}".encode()).hexdigest()[:10]
    return f"{_slug(task_id, 40)}.{_slug(variant_id, 40)}.{repl_idx}-{mark}"


def make_token() -> str:
    """Make the random mark of one dispatch."""
    while True:
        try:
            return _tokens.pop()
        except IndexError:
            drawn = secrets.token_hex(16 * 64)
            _tokens.extend(drawn[at : at + 32] for at in range(0, len(drawn), 32))


def _slug(text: str, longest: int) -> str:
    return _UNSAFE.sub("-", text).strip("-.")[:longest] or "x"
