"""What is checked of models before anything is spent: keys, prices, networks; by `lab doctor`, who answers.

Rule: a key's value is in no message.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment, ModelEntry, Variant
from labrunner.files.strangers.masking import SHORTEST
from labrunner.sandbox.door import Check

MOST_ASKED: Final = 3
"""Models of one entry that `lab doctor` asks for a word."""


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
    """Ask everybody whose key is there what models he has, and those that are named for a word or two."""
    from labrunner.gateway.process.introduction import tell_model
    from labrunner.gateway.trying import try_generating, try_model

    checks: list[Check] = []
    for entry in () if experiment.policy.is_strict_replay else experiment.models:
        if entry.key is None or given.get(entry.key):
            told = tell_model(entry, experiment, given)
            tried = await try_model(told, entry.key)
            checks.append(Check(name=_name(entry), passed=tried.is_well, message=tried.told))
            for model in _choose_models(entry, experiment, tried.names) if tried.is_well else ():
                asked = await try_generating(told, model, entry.key)
                checks.append(Check(name=_name(entry), passed=asked.is_well, message=asked.told))
    return checks


def _choose_models(entry: ModelEntry, experiment: Experiment, listed: Sequence[str]) -> list[str]:
    """Which models to ask: those that variants name and there are, else one that has a price or is alone.

    What an agent will ask for is its own matter: where nothing tells it, nobody is asked. One that is known
    by name is told its model, so that one is asked, whether it is listed or not.
    """
    if told := _find_told(entry, experiment):
        return told[:MOST_ASKED]
    known = list(dict.fromkeys([*entry.prices, *listed]))
    words = {word for variant in experiment.variants if entry in variant.models for word in _say(variant)}
    named = [model for model in known if model in words]
    alone = listed if len(listed) == 1 else ()
    return (named or [*entry.prices] or [*alone])[:MOST_ASKED]


def _find_told(entry: ModelEntry, experiment: Experiment) -> list[str]:
    """What agents that are known by name are told to ask an entry for."""
    named = [variant.agent.named for variant in experiment.variants]
    models = [each.model.partition("/") for each in named if each is not None and each.model is not None]
    return list(dict.fromkeys(model for name, _, model in models if name == entry.name))


def _say(variant: Variant) -> Iterator[str]:
    """Words by which a variant may tell its agent what to ask for."""
    texts = (*variant.agent.command, *variant.agent.env.values(), *map(str, variant.bindings.values()))
    for text in texts:
        yield from (text, *text.split(), *text.split("/"))


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
