"""What is checked of models before anything is spent: keys, prices, networks; by `lab doctor`, who answers.

Rule: a key's value is in no message.
"""

from collections.abc import Iterator, Mapping

from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment, ModelEntry
from labrunner.files.strangers.masking import SHORTEST
from labrunner.sandbox.door import Check


def check_models(experiment: Experiment, given: Mapping[str, str]) -> Iterator[Check]:
    """Every model has its key, and a price where money is limited; a network beside them is said."""
    for entry in () if experiment.policy.is_strict_replay else experiment.models:
        yield from _check_key(entry, given)
    if experiment.models and _limits_money(experiment):
        for entry in experiment.models:
            yield _check_price(entry)
    opened = [each.id for each in experiment.variants if each.models and each.agent.network.mode == "full"]
    if opened:
        told = "agents may reach everything beside their models, and what goes past the gateway is not seen"
        yield Check(name="network", passed=True, message=f"{', '.join(opened)}: {told}")


async def try_models(experiment: Experiment, given: Mapping[str, str]) -> list[Check]:
    """Ask every model that has its key for what it has."""
    from labrunner.gateway.process.introduction import tell_model
    from labrunner.gateway.trying import try_model

    checks: list[Check] = []
    for entry in () if experiment.policy.is_strict_replay else experiment.models:
        if entry.key is None or given.get(entry.key):
            tried = await try_model(tell_model(entry, experiment, given), entry.key)
            checks.append(Check(name=_name(entry), passed=tried.is_well, message=tried.told))
    return checks


def _name(entry: ModelEntry) -> str:
    return f"models.{entry.name}"


def _check_key(entry: ModelEntry, given: Mapping[str, str]) -> Iterator[Check]:
    if entry.key is None:
        return
    value = given.get(entry.key)
    if not value:
        told = f"no value for {entry.key}, its key: set it in the environment or in {flag('env_file')}"
        yield Check(name=_name(entry), passed=False, message=told)
    elif len(value) < SHORTEST:
        told = f"{entry.key}: shorter than {SHORTEST} characters, so not masked where it is printed"
        yield Check(name=_name(entry), passed=False, severity="warning", message=told)


def _limits_money(experiment: Experiment) -> bool:
    limits = [
        experiment.policy.budget.cost_usd,
        *(each.agent.limits.cost_usd for each in experiment.variants),
    ]
    return any(limit is not None for limit in limits)


def _check_price(entry: ModelEntry) -> Check:
    """Which model an agent asks for is not known before it does: say for which there is a price."""
    from labrunner.gateway.metering.pricelist import name_table

    table = None if entry.script is not None else name_table(entry.dialect, entry.base_url)
    own = f"{', '.join(sorted(entry.prices))} by its prices" if entry.prices else ""
    others = f"those that {table} knows" if table else ""
    refused = "requests for others are refused, since money is limited"
    if not own and not others:
        told = "money is limited, and no model of it has a price, so every request would be refused: "
        return Check(
            name=_name(entry), passed=False, message=f"{told}write prices: {{MODEL: {{input: …, output: …}}}}"
        )
    return Check(
        name=_name(entry),
        passed=True,
        message=f"has a price: {'; '.join(filter(None, (own, others)))}; {refused}",
    )
