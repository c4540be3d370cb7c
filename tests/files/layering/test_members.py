"""Members of layers are spelled as `tarfile` spells them, and read as `tarfile` reads them, or refused."""

import io
import tarfile
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labrunner.files.layering.memberreading import LayerRefused, MemberReader
from labrunner.files.layering.members import BLOCK, spell, spell_head

EDGES: Final = (0, 1, 8**7 - 1, 8**7, 8**11 - 1, 8**11, 1 << 40)
NAMES: Final = st.one_of(
    st.text("ab/.é\udce9 \\\n-", min_size=1, max_size=300), st.integers(1, 260).map(lambda size: "w" * size)
)
TIMES: Final = st.one_of(
    st.none(),
    st.integers(-(10**9), 10**10).map(lambda seconds: f"{seconds}.{seconds % 10**9:09d}"),
    st.sampled_from(["0", "-5", "1" * 60, "1" * 80, "1" * 99, "1" * 120]),
)
KINDS: Final = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)


@st.composite
def members(draw: st.DrawFn) -> tarfile.TarInfo:
    made = tarfile.TarInfo(draw(NAMES).rstrip("/") or "x")
    made.type, made.mode = draw(st.sampled_from(KINDS)), draw(st.integers(0, 0o7777))
    made.uid, made.gid = draw(st.sampled_from(EDGES)), draw(st.sampled_from(EDGES))
    made.mtime = draw(st.sampled_from((*EDGES, -1)))
    if made.type in {tarfile.SYMTYPE, tarfile.LNKTYPE}:
        made.linkname = draw(NAMES)
    if (time := draw(TIMES)) is not None:
        made.pax_headers = {"mtime": time}
    return made


@settings(max_examples=300)
@given(members(), st.sampled_from(EDGES))
def test_a_head_is_what_tarfile_writes(member: tarfile.TarInfo, size: int) -> None:
    member.size = size
    assert spell_head(member) == member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


@settings(max_examples=200)
@given(st.lists(st.tuples(members(), st.binary(max_size=1500)), max_size=5))
def test_what_was_spelled_is_read_again(given: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    for member, content in given:
        member.size = len(content) if member.isreg() else 0
    pieces = [piece for member, content in given for piece in spell(member, io.BytesIO(content))]
    reader = MemberReader(io.BytesIO(b"".join((*pieces, bytes(2 * BLOCK)))))
    found = list(read(reader))
    assert [content for _, content in found] == [content if m.isreg() else None for m, content in given]
    for (member, _), (again, _) in zip(given, found, strict=True):
        for name in ("name", "type", "mode", "uid", "gid", "size", "linkname"):
            assert getattr(again, name) == getattr(member, name), name
        told = member.pax_headers.get("mtime", str(member.mtime))
        assert again.pax_headers.get("mtime", str(again.mtime)) == told


def read(reader: MemberReader) -> Iterator[tuple[tarfile.TarInfo, bytes | None]]:
    while (found := reader.next()) is not None:
        member, content = found
        yield member, None if content is None else content.read()


def test_a_large_content_that_nobody_reads_to_its_end_is_gone_over() -> None:
    large, small = tarfile.TarInfo("large"), tarfile.TarInfo("small")
    large.size, small.size = 3 << 20, 5
    data = b"".join((*spell(large, io.BytesIO(bytes(3 << 20))), *spell(small, io.BytesIO(b"12345"))))
    reader = MemberReader(io.BytesIO(data + bytes(BLOCK)))
    _, content = reader.next() or (None, None)
    assert content is not None
    assert content.read(10) == bytes(10)
    assert [(member.name, found) for member, found in read(reader)] == [("small", b"12345")]


def make() -> bytearray:
    member = tarfile.TarInfo("work/x")
    member.pax_headers = {"mtime": "12.5"}
    return bytearray(spell_head(member))


def with_sum(data: bytearray, at: int, value: bytes) -> bytes:
    """A head in which something else stands, and adds up."""
    data[at : at + len(value)] = value
    start = at - at % BLOCK
    data[start + 148 : start + 156] = b" " * 8
    data[start + 148 : start + 155] = b"%06o\0" % sum(data[start : start + BLOCK])
    return bytes(data)


LAST: Final = 2 * BLOCK
"""Where the head of the member itself stands, behind what is said of its time."""
WRONG: Final = {
    "does not add up": bytes(make()[:LAST]) + b"y" + bytes(make()[LAST + 1 :]),
    "has no number for its owner": with_sum(make(), LAST + 108, b"12x4567\0"),
    "has a negative size": with_sum(make(), LAST + 124, b"-0000000001\0"),
    "has a size in other digits": with_sum(make(), LAST + 124, b"\x80" + bytes(10) + b"\x01"),
    "has a name in two parts": with_sum(make(), LAST + 345, b"/usr"),
    "is of an older form": with_sum(make(), LAST + 257, b"ustar  \0"),
    "says what has no end": with_sum(make(), BLOCK, b"99 mtime=12.5\n"),
    "says what has no length": with_sum(make(), BLOCK, b"xx"),
    "says a length of nothing": with_sum(make(), BLOCK, b"0 mtime=12.5\n"),
    "says more than it holds": with_sum(make(), 124, b"77777777777\0"),
    "is followed by nothing": bytes(make()[:LAST]),
    "ends within": bytes(make()[: LAST + 100]),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_member_is_refused_that(what: str) -> None:
    with pytest.raises(LayerRefused):
        MemberReader(io.BytesIO(WRONG[what])).next()


def test_a_content_that_is_cut_off_is_refused() -> None:
    for size in (10, 3 << 20):
        member = tarfile.TarInfo("x")
        member.size = size
        data = b"".join(spell(member, io.BytesIO(bytes(size))))
        reader = MemberReader(io.BytesIO(data[: BLOCK + size // 2]))
        with pytest.raises(LayerRefused):
            list(read(reader))
