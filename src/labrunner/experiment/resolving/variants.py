"""The variants of an experiment: written out, made from a matrix, or the single baseline."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from labrunner.experiment.agents.furnished import Furnished, name_agent, refuse_started, refuse_told
from labrunner.experiment.authoring.authored import AgentPart, SandboxPart, VariantPart
from labrunner.experiment.authoring.problems import Problems, found, validate
from labrunner.experiment.authoring.section import Section, Spot
from labrunner.experiment.digests import digest_variant
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import ModelEntry, NamedAgent, Variant
from labrunner.experiment.resolving.gathering import Reading
from labrunner.experiment.resolving.model_entries import pick_models
from labrunner.experiment.resolving.naming import agent_names, fill_path
from labrunner.experiment.resolving.parts import host_network, resolve_agent, resolve_sandbox, resolve_setup
from labrunner.experiment.resolving.stand_ins import Option, WrittenVariant, lay_agent
from labrunner.experiment.sandbox_kinds import KINDS
from labrunner.experiment.substitution import BUILT_INS, escape, is_name, scalar_text

if TYPE_CHECKING:
    from labrunner.experiment.agents.agent_file import AgentFile


def written_variants(reading: Reading) -> Sequence[WrittenVariant]:
    """Give the variants that a file asks for; the first is the baseline."""
    file, document, problems = reading.file, reading.document, reading.problems
    if file.matrix and file.variants:
        problems.add(document.where(("matrix",)), "stands beside variants; keep one of them")
    if file.matrix:
        return _matrix_variants(file.matrix, Spot(origin=document, path=("matrix",)), problems)
    if not file.variants:
        return (WrittenVariant(part=VariantPart(id="baseline"), spot=Spot(origin=document, path=())),)
    spots = [Spot(origin=document, path=("variants", number)) for number in range(len(file.variants))]
    ids: set[str] = set()
    for part, spot in zip(file.variants, spots, strict=True):
        if part.id in ids:
            problems.add(spot.at("id").where, f"there is another variant '{part.id}'; ids must differ")
        ids.add(part.id)
        for name in part.bindings:
            _check_binding_name(name, spot.at("bindings", name), problems)
    return [WrittenVariant(part=part, spot=spot) for part, spot in zip(file.variants, spots, strict=True)]


def sandbox_section(variant: WrittenVariant, reading: Reading) -> Section[SandboxPart]:
    """Merge where a variant runs: the experiment's, the variant's own, the command line's."""
    base = Section.of(reading.file.sandbox, reading.document, "sandbox")
    own = base.over(variant.part.sandbox, variant.spot.at("sandbox"))
    if reading.overrides.sandbox is None:
        return own
    option = Option(name=flag("sandbox"))
    asked = validate(
        SandboxPart, {"kind": reading.overrides.sandbox}, lambda _: option.name, reading.problems
    )
    return own.over(asked, Spot(origin=option, path=()))


def resolve_variant(
    variant: WrittenVariant, default_kind: str, models: Mapping[str, ModelEntry], reading: Reading
) -> Variant:
    """Resolve one variant."""
    part, spot, bindings, problems = variant.part, variant.spot, variant.part.bindings, reading.problems
    furnished = _find_agent(variant, models, reading)
    agent = furnished.section
    if furnished.missing is not None:
        reading.missing[furnished.missing.label] = furnished.missing
    if furnished.prompt is not None:
        reading.prompted[part.id] = furnished.prompt
    setup = Section.of(reading.file.setup, reading.document, "setup").over(part.setup, spot.at("setup"))
    sandbox = sandbox_section(variant, reading)
    kind = sandbox.part.kind or default_kind
    is_installed = furnished.folder is not None or furnished.missing is not None
    names = agent_names(part, has_dir=agent.part.dir is not None or is_installed)
    resolved = Variant(
        id=part.id,
        bindings=bindings,
        agent=resolve_agent(furnished, names, reading),
        setup=resolve_setup(setup, names, problems),
        sandbox=resolve_sandbox(sandbox, kind, bindings, reading),
        digest="",
        models=pick_models(agent, models, reading),
    )
    if not KINDS.find(kind, sandbox.at("kind").where).isolates_network:
        resolved = replace(
            resolved,
            agent=replace(resolved.agent, network=host_network(agent, kind, problems)),
            setup=replace(resolved.setup, network=host_network(setup, kind, problems)),
        )
    return replace(resolved, digest=digest_variant(resolved))


def _find_agent(variant: WrittenVariant, models: Mapping[str, ModelEntry], reading: Reading) -> Furnished:
    """Merge what a variant's agent is: the experiment's, the variant's own, the command line's."""
    own = lay_agent(_no_agent(reading), variant, reading)
    if own.part.use is None:
        refuse_told(own, "takes `use`, which names an agent that can be told", reading.problems)
        is_idle = not own.part.command and not reading.needs_agent
        return Furnished(section=_over_options(own, reading), runs="nothing" if is_idle else None)
    return _furnish(own.part.use, own.at("use"), variant, models, reading)


def _furnish(
    written: str, spot: Spot, variant: WrittenVariant, models: Mapping[str, ModelEntry], reading: Reading
) -> Furnished:
    """The same for one that is used by name."""
    from labrunner.experiment.agents.furnishing import Furnishing  # most experiments name none
    from labrunner.experiment.agents.known_agents import name_use, read_agent

    own = lay_agent(_no_agent(reading), variant, reading)
    use = fill_path(written, variant.part.bindings, spot, reading.problems)
    known = None if use is None else read_agent(use, spot.folder, spot.where, reading.problems)
    if use is None or known is None:
        return Furnished(section=_over_options(own, reading), is_found=False)
    below, name, runs = _brought(known, reading), name_agent(use), known.part.runs
    merged = _over_options(lay_agent(below, variant, reading, is_stand_in=runs is not None), reading)
    if not known.part.is_told:
        what = "only a command" if runs is None else f"only to run {runs}"
        told = f"can't be told to the agent '{name}': its file is {what}"
        refuse_told(merged, told, reading.problems)
        if runs is None:
            return Furnished(section=merged)
        refuse_started(merged, told, reading.problems)
        return Furnished(section=merged, named=NamedAgent(name=name), runs=runs)
    return Furnishing(
        name=name,
        use=name_use(use, spot.folder),
        file=known.part,
        spot=known.spot,
        merged=merged,
        bindings=variant.part.bindings,
        entries=models,
        problems=reading.problems,
    ).furnish()


def _over_options(own: Section[AgentPart], reading: Reading) -> Section[AgentPart]:
    """Lay variables of the command line over an agent."""
    if not reading.overrides.env:
        return own
    option = Option(name=flag("env"))
    data = {"env": {name: escape(value) for name, value in reading.overrides.env.items()}}
    asked = validate(AgentPart, data, lambda _: option.name, reading.problems)
    return own.over(asked, Spot(origin=option, path=()))


def _no_agent(reading: Reading) -> Section[AgentPart]:
    return Section.of(AgentPart(), reading.document, "agent")


def _brought(known: "Section[AgentFile]", reading: Reading) -> Section[AgentPart]:
    """The fields of an agent that is used by name."""
    own = {name for name in known.part.model_fields_set if name in AgentPart.model_fields}
    brought = AgentPart.model_construct(own, **{name: getattr(known.part, name) for name in own})
    return _no_agent(reading).over(brought, known.spot)


def _matrix_variants(
    matrix: Mapping[str, list[object]], spot: Spot, problems: Problems
) -> Sequence[WrittenVariant]:
    before = len(problems)
    for name, values in matrix.items():
        _check_binding_name(name, spot.at(name), problems)
        _check_axis(values, spot.at(name), problems)
    if len(problems) > before:
        return ()
    variants = []
    for combination in itertools.product(*matrix.values()):
        bindings = dict(zip(matrix, combination, strict=True))
        label = ",".join(f"{name}={scalar_text(value)}" for name, value in bindings.items())
        part = validate(VariantPart, {"id": label, "bindings": bindings}, lambda _: spot.where, problems)
        if part is not None:
            variants.append(WrittenVariant(part=part, spot=spot))
    return variants


def _check_axis(values: list[object], spot: Spot, problems: Problems) -> None:
    texts = [scalar_text(value) for value in values]
    if not values:
        problems.add(spot.where, "must hold at least one value")
    for number, text in enumerate(texts):
        if text is None:
            problems.add(
                spot.at(number).where, f"must be text, a number, true or false, found {found(values[number])}"
            )
        elif text in texts[:number]:
            problems.add(spot.at(number).where, f"'{text}' stands here twice; keep one")


def _check_binding_name(name: str, spot: Spot, problems: Problems) -> None:
    if name in BUILT_INS:
        problems.add(spot.where, f"${name} is a built-in name; call the binding something else")
    elif not is_name(name):
        problems.add(spot.where, f"'{name}' can't be a binding's name: letters, digits and _, no digit first")
