from hypothesis import given
from hypothesis import strategies as st

from labrunner.gateway.streams.eventstream import EventStream

LINES = st.sampled_from(
    [b"data: {}", b"data:a", b"data: b c", b": ping", b"event: e", b"id: 1", b"", b"", b"odd"]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def cut(whole: bytes, places: list[int]) -> list[bytes]:
    at = sorted({place % (len(whole) + 1) for place in places})
    return [whole[start:end] for start, end in zip([0, *at], [*at, len(whole)], strict=True)]


def read(pieces: list[bytes]) -> tuple[list[tuple[str, str]], bytes]:
    stream = EventStream()
    events = [event for piece in pieces for event in stream.feed(piece)] + stream.finish()
    return [(each.name, each.data) for each in events], b"".join(each.raw for each in events) + stream.rest


@given(lines=st.lists(st.tuples(LINES, ENDS), max_size=20), places=st.lists(st.integers(0, 400), max_size=12))
def test_a_stream_cut_anywhere_has_the_same_events_and_loses_no_byte(
    lines: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    whole = b"".join(line + end for line, end in lines)
    events, raw = read([whole])
    assert raw == whole
    assert read(cut(whole, places)) == (events, whole)
    assert read([whole[at : at + 1] for at in range(len(whole))]) == (events, whole)


def test_comments_names_and_data_of_several_lines_are_read() -> None:
    text = (
        b"\xef\xbb\xbfevent: delta\r\ndata: a\r\ndata:b\r\n\r\n: ping\r\n\r\ndata: \xc3\xa4\r\n\r\ndata: cut"
    )
    assert read([text])[0] == [("delta", "a\nb"), ("", ""), ("", "ä")]


def test_an_event_whose_empty_line_is_missing_stays_as_rest() -> None:
    stream = EventStream()
    assert stream.feed(b"data: a\n\ndata: b\n")[0].data == "a"
    assert (stream.finish(), stream.rest) == ([], b"data: b\n")
