"""Entries of `models:`: checked one by one, and picked by the agents that use them.

Rule: a message never shows what may be a key's value.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from labrunner.errors import InputError
from labrunner.experiment.authoring.authored import AgentPart
from labrunner.experiment.authoring.model_part import ModelPart
from labrunner.experiment.authoring.problems import nearest
from labrunner.experiment.authoring.section import Section, Spot
from labrunner.experiment.authoring.values import BadValue, check_env_name
from labrunner.experiment.model_script import read_script
from labrunner.experiment.resolved import Dialect, ModelEntry, ModelPrice
from labrunner.experiment.resolving.gathering import Reading

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_KEY_BEGINS: Final = ("sk-", "sk_", "AIza", "hf_", "gsk_", "xai-", "r8_", "pplx-")
_LONGEST_NAME: Final = 24
"""Of a variable's name in which small letters stand beside digits: longer ones are keys."""
_KEYS: Final[Mapping[Dialect, str]] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
}


def resolve_models(reading: Reading) -> Mapping[str, ModelEntry]:
    """Resolve all entries of a file, those that nobody uses too."""
    entries: dict[str, ModelEntry] = {}
    by_variable: dict[str, str] = {}
    for name, part in reading.file.models.items():
        spot = Spot(origin=reading.document, path=("models", name))
        entries[name] = entry = _resolve(name, part, spot, reading)
        _check_name(entry, by_variable, spot, reading)
    return {**_asked_for(reading), **entries}


def _asked_for(reading: Reading) -> Mapping[str, ModelEntry]:
    """The provider that the command line names for its agent: one that is known needs no entry."""
    asked = (reading.overrides.model or "") if reading.overrides.agents else ""
    name = asked.partition("/")[0]
    return {
        dialect: ModelEntry(name=dialect, dialect=dialect, key=key)
        for dialect, key in _KEYS.items()
        if dialect == name
    }


def pick_models(
    section: Section[AgentPart], entries: Mapping[str, ModelEntry], reading: Reading
) -> tuple[ModelEntry, ...]:
    """The entries that an agent's network names."""
    names, spot = section.part.network.models, section.at("network")
    for name in names:
        if name not in entries:
            known = f"nearest are {nearest(name, entries)}" if entries else "there are none in this file"
            reading.problems.add(spot.where, f"'{name}' is no entry of models; {known}")
    if not names and any(limit is not None for limit in section.part.limits.values()):
        told = "limits what an agent uses of models that its network names, and it names none"
        reading.problems.add(
            section.at("limits").where, f"{told}; write network: {{models: [name]}}, or take limits out"
        )
    picked = tuple(entries[name] for name in names if name in entries)
    _refuse_keys_inside(section, picked, reading)
    return picked


def _refuse_keys_inside(section: Section[AgentPart], picked: Sequence[ModelEntry], reading: Reading) -> None:
    keys = {entry.key: entry.name for entry in picked if entry.key is not None}
    for number, name in enumerate(section.part.secrets):
        if name in keys:
            told = f"{name} is the key of models.{keys[name]}, which stays outside of the sandbox"
            reading.problems.add(section.at("secrets").at(number).where, f"{told}; take it out here")


def _resolve(name: str, part: ModelPart, spot: Spot, reading: Reading) -> ModelEntry:
    problems, script = reading.problems, None
    if part.base_url is not None and (told := _address_problem(part.base_url)) is not None:
        problems.add(spot.at("base_url").where, told)
    if part.key is not None and not _is_variable(part.key):
        told = "is no variable's name; write the name of the variable that holds the key, never the key"
        problems.add(spot.at("key").where, told)
    if part.script is not None:
        script = reading.folder(reading.contents.source, part.script, spot.at("script"))
        if script is not None:
            _check_script(part.script, spot.at("script"), reading)
        for beside in ("base_url", "key"):
            if getattr(part, beside) is not None:
                told = "stands beside script, which answers without asking anybody; keep one of them"
                problems.add(spot.at(beside).where, told)
    elif part.base_url is None and part.key is None:
        told = f"is missing: {part.dialect}'s own provider asks for one; name the variable that holds it, "
        problems.add(spot.at("key").where, f"{told}such as {_KEYS[part.dialect]}, or write a base_url")
    return ModelEntry(
        name=name,
        dialect=part.dialect,
        base_url=part.base_url,
        key=part.key,
        prices={
            model: ModelPrice(
                input=price.input,
                output=price.output,
                cache_read=price.cache_read,
                cache_write=price.cache_write,
            )
            for model, price in part.prices.items()
        },
        max_connections=part.max_connections,
        max_retries=part.max_retries,
        server_tools=tuple(dict.fromkeys(part.server_tools)),
        script=script,
    )


def _check_script(text: str, spot: Spot, reading: Reading) -> None:
    try:
        script = read_script(spot.folder / text)
    except InputError as error:
        reading.problems.take(error)
        return
    if any(answer.cost_usd is not None for answer in script.answers):
        told = "has answers with cost_usd, which is for Python tasks; write prices beside it instead"
        reading.problems.add(spot.where, told)


def _check_name(entry: ModelEntry, by_variable: dict[str, str], spot: Spot, reading: Reading) -> None:
    if not _NAME.match(entry.name):
        told = (
            f"'{entry.name}' can't be a model's name: it is part of an address; letters, digits, -, _ and ., "
        )
        reading.problems.add(spot.where, f"{told}64 at most, a letter or digit first")
        return
    other = by_variable.setdefault(entry.variable, entry.name)
    if other != entry.name:
        told = f"'{entry.name}' and '{other}' would both be {entry.variable}_URL for the agent; rename one"
        reading.problems.add(spot.where, told)


def _is_variable(text: str) -> bool:
    """Whether a text is a variable's name, and does not look like a key that somebody pasted."""
    try:
        check_env_name(text)
    except BadValue:
        return False
    has_both = any(each.islower() for each in text) and any(each.isdigit() for each in text)
    return not text.startswith(_KEY_BEGINS) and not (len(text) > _LONGEST_NAME and has_both)


def _address_problem(text: str) -> str | None:
    """What is wrong with a provider's address; None when nothing is. Never shows what may be a password."""
    right = "write it like https://api.example.com/v1"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return f"is no address; {right}"
    if "@" in parts.netloc:
        return "holds a user or password, which would be written into the run; name a variable in key instead"
    if parts.query or parts.fragment or "?" in text or "#" in text:
        return f"holds a query or fragment, which providers' addresses have not; {right}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return f"must begin with http:// or https:// and name a host, found '{text}'; {right}"
    if not text.isascii() or not text.isprintable() or " " in text:
        return f"holds a space or a character that addresses can't have; {right}"
    return None
