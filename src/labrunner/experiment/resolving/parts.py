"""Resolves the parts of an experiment: what was authored, merged and named becomes final."""

from collections.abc import Mapping
from typing import Final

from labrunner.experiment.agents.furnished import Furnished
from labrunner.experiment.authoring.authored import AgentPart, GraderPart, MetricPart, SandboxPart, SetupPart
from labrunner.experiment.authoring.problems import Problems
from labrunner.experiment.authoring.section import Section, Spot
from labrunner.experiment.authoring.values import BadValue, check_env_name
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import (
    Agent,
    AgentLimits,
    DeclaredMetric,
    Folder,
    Grader,
    Network,
    SandboxPlan,
    Setup,
)
from labrunner.experiment.resolving.gathering import Reading
from labrunner.experiment.resolving.naming import Names, fill_all, fill_env, fill_path

_DEFAULT_LIMITS: Final = {"cpus": 2.0, "memory_mb": 2048, "pids": 512, "disk_mb": 10240}


def resolve_agent(furnished: Furnished, names: Names, reading: Reading) -> Agent:
    """Resolve a variant's agent."""
    section = furnished.section
    part, problems = section.part, reading.problems
    if not part.command and furnished.runs is None and furnished.is_found:
        told = "is missing; say what starts the agent, as a list or a text, or name an agent"
        problems.add(section.at("command").where, f"{told}: use, or {flag('agent')}")
    _check_secrets(section, problems)
    return Agent(
        command=fill_all(part.command, names, section.at("command"), problems),
        dir=furnished.folder or resolve_dir(part.dir, names.bindings, section.at("dir"), reading),
        stdin=part.stdin,
        env=fill_env(part.env, names, section.at("env"), problems),
        secrets=tuple(part.secrets),
        user=part.user,
        network=part.network,
        timeout_s=part.timeout_s,
        error_exit_codes={code: cause for code, cause in sorted(part.error_exit_codes.items()) if cause},
        require_result=part.require_result,
        limits=_resolve_limits(part.limits),
        named=furnished.named,
        exit_tells=part.exit_tells,
        runs=furnished.runs,
    )


def _resolve_limits(given: Mapping[str, float | int | None]) -> AgentLimits:
    tokens, requests = given.get("tokens"), given.get("requests")
    return AgentLimits(
        cost_usd=given.get("cost_usd"),
        tokens=None if tokens is None else int(tokens),
        requests=None if requests is None else int(requests),
    )


def resolve_grader(section: Section[GraderPart], names: Names, reading: Reading) -> Grader:
    """Resolve a grader, of the experiment or of a task."""
    part, problems = section.part, reading.problems
    if not part.command:
        problems.add(
            section.at("command").where, "is missing; say what starts the grader, as a list or a text"
        )
    _check_secrets(section, problems)
    return Grader(
        command=fill_all(part.command, names, section.at("command"), problems),
        dir=resolve_dir(part.dir, {}, section.at("dir"), reading),
        env=fill_env(part.env, names, section.at("env"), problems),
        secrets=tuple(part.secrets),
        user=part.user,
        network=part.network,
        timeout_s=part.timeout_s,
        retries=part.retries,
        pass_at=part.pass_at,
        where=part.where,
        repeatable=part.repeatable,
        metric=_resolve_metric(part.metric),
    )


def _resolve_metric(part: MetricPart | None) -> DeclaredMetric | None:
    if part is None:
        return None
    return DeclaredMetric(name=part.name, better=part.better, min=part.min, max=part.max)


def resolve_setup(section: Section[SetupPart], names: Names, problems: Problems) -> Setup:
    """Resolve a setup, of a variant or of a task."""
    part = section.part
    return Setup(
        command=fill_all(part.command, names, section.at("command"), problems),
        timeout_s=part.timeout_s,
        network=part.network,
        user=part.user,
    )


def resolve_sandbox(
    section: Section[SandboxPart], kind: str, bindings: Mapping[str, object], reading: Reading
) -> SandboxPlan:
    """Resolve where a variant's attempts run."""
    part, image = section.part, None
    if part.image is not None:
        image = fill_path(part.image, bindings, section.at("image"), reading.problems)
    written = {name: value for name in _DEFAULT_LIMITS if (value := getattr(part, name)) is not None}
    limits = {**_DEFAULT_LIMITS, **written}
    return SandboxPlan(
        kind=kind,
        image=image,
        build=resolve_context(part.build, bindings, section.at("build"), reading),
        pull=part.pull,
        prune_images=part.prune_images,
        workdir=part.workdir,
        cpus=float(limits["cpus"]),
        memory_mb=int(limits["memory_mb"]),
        pids=int(limits["pids"]),
        disk_mb=int(limits["disk_mb"]),
        read_only=part.read_only,
        tmpfs=part.tmpfs,
        limits=part.limits,
        asked=tuple(written),
        build_timeout_s=part.build_timeout_s,
    )


def resolve_dir(
    text: str | None, bindings: Mapping[str, object], spot: Spot, reading: Reading
) -> Folder | None:
    """Resolve a folder of programs."""
    filled = None if text is None else fill_path(text, bindings, spot, reading.problems)
    return None if filled is None else reading.folder(reading.contents.tools, filled, spot)


def resolve_context(
    text: str | None, bindings: Mapping[str, object], spot: Spot, reading: Reading
) -> Folder | None:
    """Resolve a folder that an image is built from."""
    filled = None if text is None else fill_path(text, bindings, spot, reading.problems)
    return None if filled is None else reading.folder(reading.contents.context, filled, spot)


def host_network(
    section: Section[AgentPart] | Section[GraderPart] | Section[SetupPart], kind: str, problems: Problems
) -> Network:
    """Give the network of a kind that isolates none: the host's. Anything else is refused."""
    network = section.part.network
    if "network" in section.part.model_fields_set and network.mode != "full":
        names = ", ".join(network.models)
        found = f"models [{names}] and nothing else" if names else network.mode
        right = f"{{models: [{names}], allow: full}}" if names else "full"
        problems.add(
            section.at("network").where,
            f"the {kind} sandbox has no network isolation, found {found}; write {right}, or use bubblewrap",
        )
    return Network(mode="full", models=network.models)


def _check_secrets(section: Section[AgentPart] | Section[GraderPart], problems: Problems) -> None:
    spot = section.at("secrets")
    for number, name in enumerate(section.part.secrets):
        try:
            check_env_name(name)
        except BadValue:  # Its text would show a secret that somebody put here by mistake.
            problems.add(
                spot.at(number).where, "is no variable's name; values of secrets never stand in a file"
            )
        if section.part.env.get(name) is not None:
            problems.add(spot.at(number).where, f"{name} stands in env too; keep one of them")
