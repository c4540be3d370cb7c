"""What calls used, as an attempt's `usage` tells it."""

from labrunner.records.facts.call_usage import UNPRICED, prefer_calls, sum_calls
from labrunner.records.facts.model_call import CallTokens
from tests.kit.gateway.callrows import make_row


def test_tokens_and_money_of_calls_are_summed() -> None:
    tokens = CallTokens(input=100, output=20, cache_read=60, reasoning=5)
    calls = [make_row(tokens=tokens, cost_usd=0.1), make_row(tokens=tokens, cost_usd=0.2)]
    assert sum_calls(calls) == {
        "requests": 2,
        "tokens": 240,
        "input_tokens": 200,
        "output_tokens": 40,
        "cache_read_tokens": 120,
        "reasoning_tokens": 10,
        "cost_usd": 0.30000000000000004,
    }


def test_calls_without_a_price_are_counted_beside_the_money() -> None:
    tokens = CallTokens(input=1, output=1)
    used = sum_calls([make_row(tokens=tokens, cost_usd=0.5), make_row(tokens=tokens)])
    assert used["cost_usd"] == 0.5
    assert used[UNPRICED] == 1


def test_where_nothing_has_a_price_there_is_no_sum_of_money() -> None:
    used = sum_calls([make_row(tokens=CallTokens(input=1, output=1))])
    assert "cost_usd" not in used
    assert used[UNPRICED] == 1


def test_a_request_that_failed_counts_and_costs_nothing() -> None:
    assert sum_calls([make_row(end="error", status=500)]) == {
        "requests": 1,
        "tokens": 0,
        "input_tokens": 0,
        "output_tokens": 0,
    }


def test_what_was_not_passed_on_or_is_free_is_no_request() -> None:
    free = [make_row(purpose="models"), make_row(purpose="count_tokens")]
    assert sum_calls([*free, make_row(end="declined", status=404), make_row(end="capped", status=402)]) == {}


def test_what_an_agent_says_of_itself_stands_beside_what_was_metered() -> None:
    said = {"tokens": 1, "cost_usd": 99.0, "cpu_s": 2.0}
    used = prefer_calls(said, [make_row(tokens=CallTokens(input=1, output=1))])
    assert used["tokens"] == 2
    assert "cost_usd" not in used
    assert (used["reported_tokens"], used["reported_cost_usd"], used["cpu_s"]) == (1, 99.0, 2.0)
    assert prefer_calls(said, []) == said
