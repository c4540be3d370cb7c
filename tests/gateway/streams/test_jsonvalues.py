import json

from hypothesis import given
from hypothesis import strategies as st

from labrunner.gateway.streams.jsonvalues import JsonValues

TEXTS = st.text(alphabet='ab"\\{}[]é\n', max_size=8)
OBJECTS = st.dictionaries(
    TEXTS, st.one_of(TEXTS, st.lists(st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=2)), max_size=3
)


@given(values=st.lists(OBJECTS, max_size=5), size=st.integers(1, 9), is_list=st.booleans())
def test_objects_of_lists_and_lines_are_found_however_they_are_cut(
    values: list[dict[str, object]], size: int, is_list: bool
) -> None:
    text = json.dumps(values, indent=1) if is_list else "\n".join(map(json.dumps, values))
    whole, stream = text.encode(), JsonValues()
    found = [value for at in range(0, len(whole), size) for value in stream.feed(whole[at : at + size])]
    assert [json.loads(value) for value in found] == values


def test_an_object_is_given_as_soon_as_it_ends() -> None:
    stream = JsonValues()
    assert stream.feed(b'[{"a": "}') == []
    assert stream.feed(b'"}') == [b'{"a": "}"}']
    assert stream.feed(b', {"b"') == []
