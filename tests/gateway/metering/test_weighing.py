import pytest

from labrunner.gateway.dialects.speech import Ask, Heard, Purpose, Tokens
from labrunner.gateway.metering.weighing import Weighed, bound_tokens, weigh

MOST = Tokens(input=1000, output=50)
TOLD = Tokens(input=120, output=30, cache_read=100)


def make_ask(purpose: Purpose = "generate", **more: object) -> Ask:
    return Ask(protocol="openai_chat", purpose=purpose, path="/", max_input=1000, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "heard", "expected"),
    [
        (200, Heard(tokens=TOLD, is_over=True), Weighed(tokens=TOLD, basis="reported")),
        (
            200,
            Heard(tokens=Tokens(input=120, output=1), size=9),
            Weighed(tokens=Tokens(input=120, output=9), basis="counted"),
        ),
        (200, Heard(size=9), Weighed(tokens=Tokens(input=1000, output=9), basis="counted")),
        (200, Heard(size=999), Weighed(tokens=MOST, basis="counted")),
        (200, Heard(size=9, is_over=True), Weighed(tokens=Tokens(input=1000, output=9), basis="counted")),
        (200, Heard(), Weighed(tokens=MOST, basis="reserved")),
        (None, None, Weighed(tokens=MOST, basis="reserved")),
        (429, Heard(), None),
        (500, Heard(size=9), None),
    ],
)
def test_what_nobody_reported_is_counted_from_above(
    status: int | None, heard: Heard | None, expected: Weighed | None
) -> None:
    assert weigh(make_ask(), MOST, status, heard) == expected


def test_lists_and_counts_are_free_and_embeddings_need_no_end() -> None:
    assert weigh(make_ask("models"), MOST, 200, Heard(tokens=TOLD)) is None
    assert weigh(make_ask("count_tokens"), MOST, 200, Heard(tokens=TOLD)) is None
    assert weigh(make_ask("embeddings"), MOST, 200, Heard(tokens=TOLD)) == Weighed(
        tokens=TOLD, basis="reported"
    )


def test_a_bound_takes_the_models_limit_where_a_request_has_none_and_the_past_where_it_counts() -> None:
    assert bound_tokens(make_ask(), past=70, max_output=99) == Tokens(input=1000, output=99)
    assert bound_tokens(make_ask(max_output=0), past=70, max_output=99) == Tokens(input=1000, output=0)
    leaning = make_ask(max_output=5, leans_on_past=True)
    assert bound_tokens(leaning, past=70) == Tokens(input=1070, output=5)
