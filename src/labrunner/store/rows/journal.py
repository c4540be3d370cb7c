"""Reading the journal: its good prefix, and whether what follows is torn (a crash) or damaged (not one).

A crash can only leave the beginning of a line at the end. A line that is bad though it has its end, is of
another run, or has a sealed line behind it was not left by one: that is damage, and nobody may cut it away.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from labrunner.errors import DamagedRun
from labrunner.files.durable import storing
from labrunner.records.commit import NO_ROWS, CommitLine, EndOffsets, chain_start, follows, seal
from labrunner.records.run import RunRecord

GROUP_LIMIT: Final = 256
"""Most slots that one commit publishes: as much of the journal's end as a crash may have left unsynced."""

_TAIL_BYTES: Final = 256 * 1024
_LONGEST_LINE: Final = 64 * 1024
_BEGINNING: Final = b'{"attempt":'
_decoder: Final = msgspec.json.Decoder(CommitLine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A sound line, where it begins in the journal, and where its rows begin in the files."""

    line: CommitLine
    offset: int
    starts: EndOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The good prefix."""

    committed: int
    chain: str
    ends: EndOffsets
    good_bytes: int
    torn_bytes: int
    recent: tuple[Placed, ...]
    """The last lines, as many as one group can hold."""


def scan(path: Path, record: RunRecord) -> Journal:
    """Check every line: form, seal, order, chain. Raises DamagedRun when a bad line is not a torn tail."""
    recent: deque[Placed] = deque(maxlen=GROUP_LIMIT)
    chain = chain_start(record.digests.experiment, record.digests.schedule)
    good, count = 0, 0
    with storing("reading", path), path.open("rb") as file:
        size = file.seek(0, 2)
        for placed, end in _follow(file, size, record.run_id):
            if not follows(chain, placed.line):
                break
            recent.append(placed)
            chain, good, count = placed.line.chain, end, count + 1
        _refuse_if_damaged(path, _texts(file, good, size), record.run_id, count)
    return Journal(
        committed=count,
        chain=chain,
        ends=recent[-1].line.ends if recent else NO_ROWS,
        good_bytes=good,
        torn_bytes=size - good,
        recent=tuple(recent),
    )


def read_lines(path: Path, run_id: str) -> Iterator[Placed]:
    """Sound lines of a journal that may be growing. Seals are checked, the chain is not.

    Raises DamagedRun when a bad line is not a torn tail.
    """
    with storing("reading", path), path.open("rb") as file:
        # Bounded by the size at the start: a line that grows meanwhile must not look bad, then good.
        size = file.seek(0, 2)
        good, count = 0, 0
        for placed, end in _follow(file, size, run_id):
            if placed.line.seal != seal(placed.line):
                break
            yield placed
            good, count = end, count + 1
        _refuse_if_damaged(path, _texts(file, good, size), run_id, count)


def iter_scanned(path: Path, run_id: str, good_bytes: int) -> Iterator[Placed]:
    """The lines of a good prefix that `scan` found; nothing of them is checked again."""
    with storing("reading", path), path.open("rb") as file:
        for placed, _ in _follow(file, good_bytes, run_id):
            yield placed


def read_last_line(path: Path, run_id: str) -> CommitLine | None:
    """The journal's last sound line; None when nothing is committed."""
    with storing("reading", path), path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read(size - file.tell())
    for text in reversed(tail.splitlines(keepends=True)):
        line = decode_line(text)
        if line is not None and line.run_id == run_id and line.seal == seal(line):
            return line
    # Nothing sound near the end: all of it has to be looked at, and damage told from an empty journal.
    last = None
    for placed in read_lines(path, run_id):
        last = placed.line
    return last


def iter_sealed(path: Path, run_id: str) -> Iterator[CommitLine]:
    """Every line that carries its own seal, each slot once, whatever stands between them; none of no file."""
    last = -1
    if not path.exists():
        return
    with storing("reading", path), path.open("rb") as file:
        for text in _texts(file, 0, file.seek(0, 2)):
            line = decode_line(text)
            if line and line.run_id == run_id and line.schedule_idx > last and line.seal == seal(line):
                yield line
                last = line.schedule_idx


def decode_line(text: bytes) -> CommitLine | None:
    """A complete line of a journal, or None."""
    # Our own form only: a line end that was converted is no line that we wrote.
    if not text.endswith(b"}\n"):
        return None
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        return None


def _texts(file: BinaryIO, start: int, stop: int) -> Iterator[bytes]:
    """Lines between two offsets, the last one maybe without its end."""
    at = file.seek(start)
    while at < stop and (text := file.readline(min(_LONGEST_LINE, stop - at))):
        at += len(text)
        yield text


def _follow(file: BinaryIO, size: int, run_id: str) -> Iterator[tuple[Placed, int]]:
    """Lines that have the right form, run and number, with the offset at which each ends."""
    offset, starts = 0, NO_ROWS
    for number, text in enumerate(_texts(file, 0, size)):
        line = decode_line(text)
        if line is None or line.run_id != run_id or line.schedule_idx != number:
            return
        end = offset + len(text)
        yield Placed(line=line, offset=offset, starts=starts), end
        offset, starts = end, line.ends


def _refuse_if_damaged(path: Path, rest: Iterator[bytes], run_id: str, count: int) -> None:
    """Raise DamagedRun unless what follows is what a crash leaves: the beginning of a line."""
    bad = next(rest, b"")
    problem = find_damage(bad, run_id, count)
    for text in rest if problem is None else ():
        line = decode_line(text)
        if line and line.seal == seal(line):
            problem = f"is damaged, but slot {line.schedule_idx} after it is sound"
            break
    if problem is not None:
        raise DamagedRun(
            f"{path}: line {count + 1} {problem}; "
            "no crash leaves that, so nothing was changed; look at the disk, and keep a copy of the run"
        )


def find_damage(text: bytes, run_id: str, count: int) -> str | None:
    """What is wrong with a line that no crash can have left so; None for one that is merely unfinished."""
    line = decode_line(text) or decode_line(text[:-1] + b"\n")
    if line is not None and line.seal == seal(line):
        if line.run_id != run_id:
            return f"belongs to run {line.run_id}, but run.json says {run_id}"
        return f"is of slot {line.schedule_idx}, not {count}" if line.schedule_idx != count else "is damaged"
    # What a power cut left may hold zeros, or what lay there before; a line of ours with its end does not.
    is_ours = text.startswith(_BEGINNING) or text.rstrip().endswith(b"}")
    return "is damaged" if is_ours and text.endswith(b"\n") and b"\0" not in text else None
