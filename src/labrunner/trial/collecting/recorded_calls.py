"""What the gateway recorded of an attempt: its calls, what was said in them, and what its doors refused.

Rules: masked line by line, so that every line stays one; a body in which a secret was masked keeps the digest
of what passed, and says that it was masked, so that calls still name it. Answers are searched as they are
heard, too: a stream may cut a secret in two. What is no row goes: the line that a crash left unfinished, of
which nobody was told, and what an agent wrote where nothing is kept from it. Whole bodies of a long attempt
are never in memory at once.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from labrunner.files.descriptors import NEW_FILE, sync, sync_path, write_all
from labrunner.files.strangers.hostile import open_plain
from labrunner.files.strangers.masking import Masker
from labrunner.files.strangers.removal import remove
from labrunner.gateway.recording.calljournal import BODIES, CALLS
from labrunner.gateway.recording.doorjournal import DOORS
from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.records.facts.door_event import DoorEvent
from labrunner.records.facts.model_call import BodyRow, CallRow
from labrunner.trial.collecting.redaction import Redactor

if TYPE_CHECKING:
    from labrunner.gateway.dialects.speech import Heard

RECORDED: Final = (CALLS, BODIES, DOORS)
"""Files beside an attempt's folders that only the gateway writes."""

_Masking = Callable[[bytes], tuple[bytes, int]]
_bodies: Final = msgspec.json.Decoder(BodyRow)
_calls: Final = msgspec.json.Decoder(CallRow)
_DECODERS: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    CALLS: _calls,
    BODIES: _bodies,
    DOORS: msgspec.json.Decoder(DoorEvent),
}


def keep_recorded(root: Path, masker: Masker, redactor: Redactor) -> Iterator[FileRef]:
    """Mask what was recorded and make it durable; files without a line go."""
    answered = _find_answers(root / CALLS) if masker.needles else {}
    for name in RECORDED:
        path = root / name
        if not os.path.lexists(path):
            continue
        mask = _BodyMasking(masker, answered).mask if name == BODIES else masker.mask_document
        try:
            kept = _keep(path, name, mask if masker.needles else _leave)
        except OSError as error:
            if path.is_file() and not path.is_symlink():
                raise
            remove(path)
            redactor.note_dropped(name, f"not a plain file: {error.strerror}")
            continue
        redactor.note_masked(name, kept.masked)
        if kept.ref.size:
            yield kept.ref
        else:
            remove(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    ref: FileRef
    masked: int


def _keep(path: Path, name: str, mask: _Masking) -> _Kept:
    """Make a file durable; it is written anew, beside itself first, only where something has to change."""
    digest, size, count, is_changed = hashlib.sha256(), 0, 0, False
    for line, kept, masked in _go_over(path, mask):
        digest.update(kept)
        size, count, is_changed = size + len(kept), count + masked, is_changed or kept != line
    if is_changed:
        _write_anew(path, mask)
    else:
        sync_path(path)
    return _Kept(ref=FileRef(path=name, digest=f"sha256:{digest.hexdigest()}", size=size), masked=count)


def _go_over(path: Path, mask: _Masking) -> Iterator[tuple[bytes, bytes, int]]:
    """Each line as it is, as it is kept, and how many secrets were in it."""
    with open_plain(path) as file:
        for line in file:
            is_row = line.endswith(b"\n") and _is_row(line, path.name)
            yield (line, *mask(line)) if is_row else (line, b"", 0)


def _is_row(line: bytes, name: str) -> bool:
    """Whether the gateway can have written it; where nothing is kept from an agent, it may, too."""
    try:
        _DECODERS[name].decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _write_anew(path: Path, mask: _Masking) -> None:
    aside = path.with_name(f".{path.name}.tmp")
    target = os.open(aside, NEW_FILE, 0o600)
    try:
        for _, kept, _ in _go_over(path, mask):
            write_all(target, kept)
        sync(target)
    finally:
        os.close(target)
    aside.rename(path)


def _leave(line: bytes) -> tuple[bytes, int]:
    return line, 0


def _find_answers(path: Path) -> dict[str, CallRow]:
    """Calls by the digest of their answer."""
    with suppress(OSError):
        return {call.answer: call for call in _read_calls(path) if call.answer is not None}
    return {}


def _read_calls(path: Path) -> Iterator[CallRow]:
    """The calls; a line that is none is nobody's."""
    with open_plain(path) as file:
        for line in file:
            with suppress(msgspec.DecodeError):
                yield _calls.decode(line)


@dataclass(frozen=True, slots=True)
class _BodyMasking:
    """Masks lines of `bodies.jsonl`."""

    masker: Masker
    answered: Mapping[str, CallRow]

    def mask(self, line: bytes) -> tuple[bytes, int]:
        row = _bodies.decode(line)
        kept = self._mask_row(row)
        if kept == row:
            return line, 0
        changed = msgspec.structs.replace(kept, masked=True)
        return canonical.encode_line(changed), max(1, self.masker.mask(line)[1])

    def _mask_row(self, row: BodyRow) -> BodyRow:
        if row.form == "base64":
            data, _ = self.masker.mask(base64.b64decode(row.body))
            kept = msgspec.structs.replace(row, body=base64.b64encode(data).decode())
        else:
            kept = msgspec.structs.replace(row, body=self.masker.mask_plain(row.body))
        call = self.answered.get(row.digest)
        return kept if call is None else self._mask_answer(kept, call)

    def _mask_answer(self, row: BodyRow, call: CallRow) -> BodyRow:
        """The answer, or only its words where its bytes still hold a secret in pieces."""
        from labrunner.gateway.telling.answering import hear_answer, tell_answer  # few calls hold a secret

        try:
            heard = hear_answer(call, row)
        except ValueError:
            return row
        safe = _mask_heard(heard, self.masker)
        return row if safe == heard else msgspec.structs.replace(row, form="told", body=tell_answer(safe))


def _mask_heard(heard: "Heard", masker: Masker) -> "Heard":
    def mask(text: str | None) -> str | None:
        return masker.mask_text(text) if text else text

    wanted = tuple(
        replace(each, arguments=masker.mask_document(each.arguments.encode("utf-8", "replace"))[0].decode())
        for each in heard.wanted
    )
    complaint = heard.complaint
    if complaint is not None:
        complaint = replace(complaint, message=masker.mask_text(complaint.message))
    return replace(
        heard,
        text=masker.mask_text(heard.text),
        reasoning=masker.mask_text(heard.reasoning),
        refusal=mask(heard.refusal),
        stop_reason=mask(heard.stop_reason),
        model=mask(heard.model),
        wanted=wanted,
        complaint=complaint,
    )
