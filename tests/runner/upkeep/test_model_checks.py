"""What preflight says of models: keys, prices, networks that are open beside them."""

import re
from dataclasses import replace
from typing import Any

import pytest

from labrunner.experiment.resolved import AgentLimits, Experiment, ModelEntry, ModelPrice, Network
from labrunner.policy.budget import Budget
from labrunner.runner.upkeep.model_checks import check_models, try_models
from tests.kit.builders import make_agent, make_experiment, make_policy, make_variant
from tests.kit.gateway.provider import run_provider

PRICES = {"big": ModelPrice(input=1, output=2)}


NO_LIMITS = AgentLimits()


def asking(limits: AgentLimits = NO_LIMITS, mode: Any = "none", **entry: Any) -> Experiment:
    model = ModelEntry(**{"name": "main", "dialect": "openai"} | entry)
    agent = make_agent(network=Network(mode=mode, models=("main",)), limits=limits)
    return make_experiment(variants=(make_variant(agent=agent, models=(model,)),))


def test_a_key_without_a_value_is_an_error_that_names_variable_and_file() -> None:
    (check,) = check_models(asking(key="THE_KEY"), {})
    assert (check.name, check.passed, check.severity) == ("models.main", False, "error")
    assert check.message == "no value for THE_KEY, its key: set it in the environment or in --env-file"


def test_a_key_that_is_given_is_not_shown() -> None:
    assert list(check_models(asking(key="THE_KEY"), {"THE_KEY": "a long enough key"})) == []


def test_a_key_too_short_to_be_masked_is_warned_of() -> None:
    (check,) = check_models(asking(key="THE_KEY"), {"THE_KEY": "short"})
    assert (check.passed, check.severity) == (False, "warning")
    assert "short:" not in check.message


MONEY = AgentLimits(cost_usd=1.0)


@pytest.mark.parametrize(
    ("entry", "passed", "told"),
    [
        (
            {"key": "K"},
            True,
            r"has a price: those that genai-prices [\d.]+ \(openai\) knows; requests for others",
        ),
        ({"key": "K", "prices": PRICES}, True, "has a price: big by its prices; those that genai-prices"),
        (
            {"base_url": "http://127.0.0.1:1/v1", "prices": PRICES},
            True,
            "has a price: big by its prices; requests",
        ),
        (
            {"base_url": "http://127.0.0.1:1/v1"},
            False,
            "no model of it has a price, so every request would be",
        ),
        ({"base_url": "https://api.anthropic.com", "dialect": "anthropic"}, True, r"\(anthropic\)"),
    ],
)
@pytest.mark.parametrize("where", ["limits", "budget"])
def test_where_money_is_limited_it_is_said_what_has_a_price(
    entry: dict[str, Any], passed: bool, told: str, where: str
) -> None:
    experiment = asking(MONEY if where == "limits" else AgentLimits(), **entry)
    if where == "budget":
        experiment = replace(experiment, policy=make_policy(budget=Budget(cost_usd=1.0, tokens=None)))
    (check,) = check_models(experiment, {"K": "a long enough key"})
    assert (check.name, check.passed, check.severity) == ("models.main", passed, "error")
    assert re.search(told, check.message), check.message


def test_where_money_is_not_limited_nothing_is_said_of_prices() -> None:
    assert list(check_models(asking(base_url="http://h", limits=AgentLimits(tokens=5)), {})) == []


def test_a_network_that_is_open_beside_models_is_said() -> None:
    (check,) = check_models(asking(base_url="http://h", mode="full"), {})
    assert check.passed
    assert check.message.startswith("baseline: agents may reach everything beside their models")


@pytest.mark.parametrize(
    ("bindings", "prices", "asked"),
    [
        ({"model": "provider/big"}, PRICES, ["big"]),  # as many agents want it
        ({}, PRICES, ["big"]),
        ({}, {}, ["m"]),  # it is all that there is
        ({"model": "m"}, PRICES, ["m"]),
    ],
)
async def test_models_are_asked_for_a_word_that_variants_name_or_that_have_a_price(
    bindings: dict[str, str], prices: dict[str, ModelPrice], asked: list[str]
) -> None:
    async with run_provider() as provider:
        experiment = asking(base_url=f"{provider.url}/v1", prices=prices)
        variant = replace(experiment.variants[0], bindings=bindings)
        checks = await try_models(replace(experiment, variants=(variant,)), {})
        assert [got.body["model"] for got in provider.got if got.body] == asked
    assert [check.passed for check in checks] == [True] * (1 + len(asked))
    assert checks[-1].message.startswith(f"{asked[-1]} answered in ")


async def test_nobody_is_asked_where_recorded_calls_answer() -> None:
    strict = make_policy(replay="/a/run")
    experiment = replace(asking(key="THE_KEY"), policy=strict)
    assert list(check_models(experiment, {})) == []
    assert await try_models(experiment, {}) == []
