"""Agents in the place of an experiment's own: those that the command line names, and what is no agent at all.

Rule: who takes an agent's place has the place, and nothing of the agent: its user, what is reached but for
models, and its time. Setup, sandbox and bindings are those of the variant whose place it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from labrunner.experiment.agents.furnished import name_agent
from labrunner.experiment.authoring.authored import AgentPart, VariantPart
from labrunner.experiment.authoring.document import FieldPath, dotted
from labrunner.experiment.authoring.problems import listed, validate
from labrunner.experiment.authoring.section import Section, Spot
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolving.gathering import Reading
from labrunner.experiment.substitution import escape, names_in

PLACE: Final = ("user", "network", "timeout_s")
"""Fields of an agent that say where it works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of the command line as the origin of a field."""

    name: str

    def where(self, path: FieldPath) -> str:
        """Name the option and the field that it sets."""
        return f"{self.name}: {dotted(path)}"

    def folder(self, path: FieldPath) -> Path:  # noqa: ARG002 - one folder for all fields
        """Give the folder that lab was started in."""
        return Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenVariant:
    """A variant as it was written, and where."""

    part: VariantPart
    spot: Spot
    asked: AgentPart | None = None
    """The agent that the command line puts in the place of its own."""

    @property
    def id(self) -> str:
        """Its name."""
        return self.part.id


def put_in_place(variants: Sequence[WrittenVariant], reading: Reading) -> Sequence[WrittenVariant]:
    """The agents that the command line names, as variants; the variants themselves where it names none."""
    asked, problems, option = reading.overrides.agents, reading.problems, flag("agent")
    if not asked or not variants:
        return variants
    place = variants[0]
    around = (place.part.setup, place.part.sandbox)
    if any((each.part.setup, each.part.sandbox) != around for each in variants):
        told = f"the variants {listed(each.id for each in variants)} differ in setup or sandbox"
        problems.add(option, f"{told}; say in whose place, by {flag('variant')}")
    names = [name_agent(use) for use in asked]
    for name in {each for each in names if names.count(each) > 1}:
        problems.add(option, f"'{name}' is named twice; keep one")
    found = []
    for use, name in zip(asked, names, strict=True):
        written = {"use": escape(use)}
        if reading.overrides.model is not None:
            written["model"] = escape(reading.overrides.model)
        agent = validate(AgentPart, written, lambda _: option, problems)
        part = validate(VariantPart, {"id": name}, lambda _: option, problems)
        if part is not None:
            part = place.part.model_copy(update={"id": part.id})
            found.append(WrittenVariant(part=part, spot=place.spot, asked=agent))
    return found


def lay_agent(
    below: Section[AgentPart], variant: WrittenVariant, reading: Reading, *, is_stand_in: bool = False
) -> Section[AgentPart]:
    """Lay a variant's agent over `below`: the experiment's, the variant's own, the command line's."""
    base, own = reading.file.agent, variant.part.agent
    if variant.asked is not None:
        base, own = _keep_place(base), _keep_place(own)
    elif is_stand_in and (own.use is not None or names_in(base.use or "")):
        base = _keep_place(base)
    merged = below.over(base, Spot(origin=reading.document, path=("agent",)))
    merged = merged.over(own, variant.spot.at("agent"))
    asked = variant.asked
    if asked is None:
        return merged
    if is_stand_in and len(reading.overrides.agents) > 1:
        asked = AgentPart(use=asked.use)  # the model is meant for the others
    return _reach_model(merged.over(asked, Spot(origin=Option(name=flag("agent")), path=())))


def _keep_place(part: AgentPart) -> AgentPart:
    """What of an agent is its place."""
    kept = {name: getattr(part, name) for name in PLACE if name in part.model_fields_set}
    if part.network.models:
        kept["network"] = replace(part.network, models=())
        if part.network.mode == "none":  # it was written for the sake of its models
            del kept["network"]
    return AgentPart.model_construct(set(kept), **kept)


def _reach_model(section: Section[AgentPart]) -> Section[AgentPart]:
    """Add the model that is asked for to a network that was written without it."""
    part = section.part
    if part.model is None or "network" not in part.model_fields_set:
        return section
    network = replace(part.network, models=(part.model.partition("/")[0],))
    return replace(section, part=part.model_copy(update={"network": network}))
