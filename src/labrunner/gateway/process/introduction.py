"""What an owner tells its gateway of an experiment."""

from collections.abc import Mapping
from pathlib import Path

from labrunner.experiment.resolved import AgentLimits, Experiment, ModelEntry, ModelPrice
from labrunner.gateway.process.control import Hello, ToldCaps, ToldModel, ToldPrice
from labrunner.gateway.process.place import GatewayPlace


def find_place(trials: Path) -> GatewayPlace:
    """Where the gateway is of the run whose trials' folders lie there."""
    return GatewayPlace(trials.parent / "gateway")


def greet(experiment: Experiment, secrets: Mapping[str, str], trials: Path) -> Hello:
    """Introduce an experiment, with the values of its keys."""
    policy = experiment.policy
    budget = ToldCaps(cost_usd=policy.budget.cost_usd, tokens=policy.budget.tokens)
    models = tuple(tell_model(entry, experiment, secrets) for entry in experiment.models)
    return Hello(models=models, budget=budget, trials=str(trials))


def tell_caps(limits: AgentLimits) -> ToldCaps:
    """What one attempt may use."""
    return ToldCaps(cost_usd=limits.cost_usd, tokens=limits.tokens, requests=limits.requests)


def tell_model(entry: ModelEntry, experiment: Experiment, secrets: Mapping[str, str]) -> ToldModel:
    """Introduce one model, with the value of its key."""
    policy = experiment.policy
    return ToldModel(
        name=entry.name,
        dialect=entry.dialect,
        base_url=entry.base_url,
        key=None if entry.key is None or policy.is_strict_replay else secrets[entry.key],
        prices={name: _tell_price(price) for name, price in entry.prices.items()},
        max_connections=policy.max_connections or entry.max_connections,
        max_retries=entry.max_retries if policy.max_retries is None else policy.max_retries,
        server_tools=entry.server_tools,
        script=None if entry.script is None else entry.script.path,
    )


def _tell_price(price: ModelPrice) -> ToldPrice:
    return ToldPrice(
        input=price.input, output=price.output, cache_read=price.cache_read, cache_write=price.cache_write
    )
