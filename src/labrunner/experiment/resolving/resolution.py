"""From a decoded experiment file to the frozen `Experiment`: complete, checked, with its digests.

Rule: everything that can be found wrong is found before anything is raised, so that people mend it in one go.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from labrunner.experiment.agents.furnished import AgentsMissing
from labrunner.experiment.authoring.authored import ExperimentFile
from labrunner.experiment.authoring.document import Document
from labrunner.experiment.authoring.problems import Problems, validate
from labrunner.experiment.digests import digest_experiment
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment, Order, TaskSpec, Variant
from labrunner.experiment.resolving.gathering import Reading
from labrunner.experiment.resolving.hazards import (
    refuse_exposed,
    refuse_unheeded,
    refuse_unsaid,
    refuse_unsolved,
)
from labrunner.experiment.resolving.model_entries import resolve_models
from labrunner.experiment.resolving.overlay import policy_parts
from labrunner.experiment.resolving.selection import select_variants
from labrunner.experiment.resolving.stand_ins import WrittenVariant, put_in_place
from labrunner.experiment.resolving.tasks import WrittenTask, make_rules, resolve_task, written_tasks
from labrunner.experiment.resolving.variants import resolve_variant, sandbox_section, written_variants
from labrunner.experiment.run_policy import BreakerPolicy, ExecutorPlan, KeepPolicy, Policy
from labrunner.experiment.sandbox_kinds import default_kind
from labrunner.experiment.substitution import names_in
from labrunner.policy.budget import Budget


def resolve(document: Document, overrides: Overrides, source: str, *, needs_agent: bool = True) -> Experiment:
    """Resolve an experiment file, or say everything that is wrong with it."""
    problems = Problems()
    file = validate(ExperimentFile, document.data, document.where, problems)
    if file is None:
        problems.stop_if_any()
        raise AssertionError("a file that can't be decoded has a problem")
    reading = Reading(
        file=file, document=document, overrides=overrides, problems=problems, needs_agent=needs_agent
    )
    _refuse_file(reading)
    tasks = written_tasks(reading)
    variants = written_variants(reading)
    chosen = select_variants(variants, overrides.variants, flag("variant"), problems)
    chosen = put_in_place(chosen, reading)
    experiment = _experiment(tasks, chosen, reading, source)
    problems.stop_if_any()
    if reading.missing:
        raise AgentsMissing(document.where(("agent",)), tuple(reading.missing.values()))
    return experiment


def _experiment(
    tasks: Sequence[WrittenTask], variants: Sequence[WrittenVariant], reading: Reading, source: str
) -> Experiment:
    file = reading.file
    kind = _default_kind(tasks, variants, reading)
    models = resolve_models(reading)
    resolved = tuple(resolve_variant(variant, kind, models, reading) for variant in variants)
    bound = {name for variant in variants for name in variant.part.bindings}
    kinds = frozenset(variant.sandbox.kind for variant in resolved)
    rules = make_rules(tasks, bound, kinds, reading)
    experiment = Experiment(
        name=file.name,
        description=file.description,
        tags=tuple(file.tags),
        source=source,
        tasks=tuple(resolve_task(task, rules, reading) for task in tasks),
        variants=resolved,
        trust=file.trust,
        on_system_change=file.on_system_change,
        collect=tuple(file.collect),
        replications=file.replications,
        order=Order(file.order),
        population=file.population,
        retry_margin=file.retry_margin,
        seed=file.seed,
        grade_on_agent_failure=file.grade_on_agent_failure,
        metadata=file.metadata,
        policy=replace(make_policy(file), **policy_parts(reading.overrides)),
        digest="",
    )
    _check_prompts(experiment.tasks, resolved, reading)
    refuse_exposed(experiment, reading)
    refuse_unsaid(experiment, reading)
    refuse_unheeded(reading)
    refuse_unsolved(experiment, reading)
    return replace(experiment, digest=digest_experiment(experiment))


def make_policy(file: ExperimentFile) -> Policy:
    """The policy that a file asks for."""
    return Policy(
        max_concurrency=file.max_concurrency,
        fail_on_error=file.fail_on_error,
        continue_on_fail=file.continue_on_fail,
        retry_on_error=file.retry_on_error,
        breaker=BreakerPolicy(after=file.breaker.after, give_up_after_s=file.breaker.give_up_after_s),
        min_free_disk_gb=file.min_free_disk_gb,
        budget=Budget(cost_usd=file.budget.cost_usd, tokens=file.budget.tokens),
        keep=KeepPolicy(workspace=file.keep.workspace, logs=file.keep.logs),
        executor=ExecutorPlan(
            kind=file.executor.kind,
            address=file.executor.address,
            per_node=file.executor.per_node,
            labels=file.executor.labels,
        ),
    )


def _refuse_file(reading: Reading) -> None:
    if reading.file.extends is not None:
        where = reading.document.where(("extends",))
        reading.problems.add(where, "can't be set from the command line; write it into the file")


def _default_kind(tasks: Sequence[WrittenTask], variants: Sequence[WrittenVariant], reading: Reading) -> str:
    """Decide by whether an image is named anywhere."""
    parts = [sandbox_section(variant, reading).part for variant in variants]
    imaged = any(part.image or part.build for part in parts) or any(
        task.row.image or task.row.build for task in tasks
    )
    return default_kind(is_imaged=imaged)


def _check_prompts(tasks: Sequence[TaskSpec], variants: Sequence[Variant], reading: Reading) -> None:
    """Refuse an agent that wants a text where a task has none, or one that is too long for it."""
    _check_lengths(tasks, reading)
    without = next((task for task in tasks if task.prompt is None), None)
    if without is None:
        return
    for variant in variants:
        for field, what in _ask_for_prompt(variant, reading):
            reading.problems.add(
                reading.document.where(("agent", field)),
                f"{what} the task's text, but task '{without.id}' has none; "
                "give it a prompt, or an input that is text",
            )


def _ask_for_prompt(variant: Variant, reading: Reading) -> Iterator[tuple[str, str]]:
    """Where a variant's agent asks for the task's text: the field, and how it does."""
    agent = variant.agent
    if agent.stdin == "prompt":
        yield "stdin", "agent.stdin feeds"
    texts = (*agent.command, *variant.setup.command, *agent.env.values())
    if any("prompt_path" in names_in(text) for text in texts):
        yield "command", "$prompt_path names"
    if variant.id in reading.prompted and agent.named is not None:
        yield "use", f"$prompt of the agent '{agent.named.name}' is"


def _check_lengths(tasks: Sequence[TaskSpec], reading: Reading) -> None:
    """Refuse texts that no program could be started with."""
    most = min(
        (use.most_bytes for use in reading.prompted.values() if use.most_bytes is not None), default=None
    )
    for task in tasks:
        size = len((task.prompt or "").encode())
        if most is not None and size > most:
            told = f"$prompt makes the task's text an argument, of which Linux takes {most:,} bytes here"
            remedy = "use an agent that takes $prompt_path or stdin, or put large things into files"
            where = reading.document.where(("agent", "use"))
            reading.problems.add(where, f"{told}, and that of task '{task.id}' has {size:,}; {remedy}")
            return
