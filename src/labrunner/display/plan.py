"""What `lab plan` prints: the resolved experiment, exactly as it would run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import Final

from rich.console import RenderableType

from labrunner.analysis.comparing.answer import least_p
from labrunner.analysis.comparing.power import layout_of
from labrunner.analysis.comparing.questions import FEWEST_UNITS
from labrunner.analysis.describing.variance import ALPHA
from labrunner.display.named_agents import describe_named
from labrunner.display.tasks_own import (
    describe_images,
    describe_network,
    describe_networks,
    describe_sandboxes,
    describe_time,
    describe_times,
)
from labrunner.display.text.console import indent, make_fields, make_line, make_table, stack
from labrunner.display.text.quantities import format_count, format_size
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import (
    Agent,
    AgentLimits,
    DeclaredMetric,
    Experiment,
    Grader,
    ModelEntry,
    Program,
    TaskSpec,
    Variant,
)
from labrunner.experiment.run_policy import Policy
from labrunner.experiment.schedule import Schedule
from labrunner.policy.budget import describe_budget
from labrunner.records.encoding.ids import make_trial_id
from labrunner.runner.upkeep.footprint import Footprint

FIRST_TASKS: Final = 5
FIRST_SLOTS: Final = 6
LONGEST_WORD: Final = 400
SHOWN_OF_SCRIPT: Final = 80


def show_plan(
    experiment: Experiment, *, concurrency: int | None = None, footprint: Footprint | None = None
) -> RenderableType:
    """Show what would run; `concurrency` as this machine works it out, `footprint` if it was looked at."""
    return stack(
        make_line(experiment.name, "bold"),
        make_fields([*_overview(experiment), *_describe_disk(experiment, footprint)]),
        *_show_models(experiment),
        *(_show_variant(variant, experiment.tasks) for variant in experiment.variants),
        *(_show_graders(experiment) if experiment.tasks[0].grader.command else ()),
        make_line(""),
        make_line("policy (not part of the digest)"),
        indent(make_fields(describe_policy(experiment.policy, concurrency))),
        make_line(""),
        _show_schedule(experiment),
    )


def show_reuse(lines: Sequence[str]) -> RenderableType:
    """Show what would be taken over from earlier runs, and what would be run all the same."""
    return stack(make_line(""), make_line("reuse"), *(indent(make_line(line)) for line in lines))


def _overview(experiment: Experiment) -> list[tuple[str, str]]:
    slots = len(Schedule.of(experiment))
    fields = [
        ("digest", experiment.digest),
        ("file", experiment.source),
        ("description", experiment.description),
        ("tags", ", ".join(experiment.tags)),
        (
            "tasks",
            f"{len(experiment.tasks):,}: {_first((task.id for task in experiment.tasks), FIRST_TASKS)}",
        ),
        ("solutions", _describe_solutions(experiment)),
        ("variants", f"{len(experiment.variants)}, the baseline is {experiment.variants[0].id}"),
        ("replications", str(experiment.replications)),
        ("population", _describe_population(experiment)),
        ("order", _describe_order(experiment)),
        ("trials", f"{slots:,}"),
        ("trust", f"{experiment.trust}; on system change: {experiment.on_system_change}"),
        ("collect", ", ".join(experiment.collect)),
    ]
    return [(name, value) for name, value in fields if value]


def _describe_solutions(experiment: Experiment) -> str:
    count = sum(task.solution is not None for task in experiment.tasks)
    return f"{format_count(count, 'task')} with a `solution`, for the agent `oracle` alone" if count else ""


def _describe_disk(experiment: Experiment, footprint: Footprint | None) -> list[tuple[str, str]]:
    if footprint is None:
        return []
    told = f"about {format_size(footprint.records)} of rows, inputs and logs stay"
    whose = {"failed": "of trials that don't pass ", "always": "", "never": None}
    kept = whose[experiment.policy.keep.workspace]
    if kept is not None and footprint.limit:
        told += f"; workspaces {kept}too, {format_size(footprint.workspaces)} in all as they start"
    fields = [("disk", told)]
    if footprint.limit:
        at_once = f"{format_size(footprint.at_once)} of workspaces as they start"
        fields.append(("disk at once", f"{at_once}, {format_size(footprint.limit)} by their limits"))
    return fields


def _describe_population(experiment: Experiment) -> str:
    """What conclusions will speak of; told where it was chosen, or where tasks are too few."""
    if len(experiment.variants) < 2:
        return ""
    is_single = experiment.replications == 1
    if experiment.population == "these_tasks":
        told = "these tasks: nothing will be concluded about others"
        is_lost = is_single and len(experiment.tasks) < FEWEST_UNITS
        return f"{told}; one trial each of so few shows no difference of rates" if is_lost else told
    units = len(layout_of([task.group for task in experiment.tasks]).sizes)
    named = "tasks" if units == len(experiment.tasks) else "groups"
    compared = len(experiment.variants) - 1
    if units >= FEWEST_UNITS:
        needed = next(each for each in count(units) if compared * least_p(each) < ALPHA)
        told = f"tasks like these, of which {units} {named} show none of {compared} comparisons of rates"
        return f"{told}: it takes {needed}" if needed > units else ""
    return (
        f"tasks like these, of which {units} {named} will tell nothing: it takes {FEWEST_UNITS}; "
        f"`population: these_tasks` asks about these only{', which takes replications' if is_single else ''}"
    )


def _describe_order(experiment: Experiment) -> str:
    return (
        f"{experiment.order}, seed {experiment.seed}" if experiment.order == "shuffled" else experiment.order
    )


def _show_variant(variant: Variant, tasks: Sequence[TaskSpec]) -> RenderableType:
    agent, setup = variant.agent, variant.setup
    fields = [
        ("digest", variant.digest),
        *(_describe_program(variant.program) if variant.program else ()),
        ("bindings", _pairs(variant.bindings.items())),
        ("setup", format_command(setup.command)),
        ("agent", describe_named(agent)),
        ("started by" if agent.named else "agent", _describe_start(agent)),
        ("agent's folder", f"{agent.dir.path}  {agent.dir.digest}" if agent.dir else ""),
        ("environment", _pairs(agent.env.items())),
        ("secrets", ", ".join(agent.secrets)),
        ("network", describe_networks(tasks, variant)),
        ("models' limits", describe_limits(agent.limits)),
        ("time limit", describe_times(tasks, variant) if _describe_start(agent) else ""),
        ("images", describe_images(tasks)),
        ("sandbox", describe_sandboxes(tasks, variant)),
    ]
    return stack(
        make_line(""),
        make_line(f"variant {variant.id}"),
        indent(make_fields([(name, value) for name, value in fields if value])),
    )


def _describe_start(agent: Agent) -> str:
    match agent.runs:
        case "solution":
            return "each task's own solution"
        case "nothing":
            return "nothing"
        case _:
            return format_command(agent.command)


def _show_graders(experiment: Experiment) -> list[RenderableType]:
    graders: dict[str, tuple[Grader, int]] = {}
    counts = Counter(id(task.grader) for task in experiment.tasks)  # nearly all share theirs
    for grader in {id(task.grader): task.grader for task in experiment.tasks}.values():
        told = repr(grader)
        before = graders[told][1] if told in graders else 0
        graders[told] = (grader, before + counts[id(grader)])
    shown = [_show_grader(grader, count, len(graders)) for grader, count in islice(graders.values(), 3)]
    if len(graders) > 3:
        shown.append(make_line(f"and {len(graders) - 3} more graders of single tasks"))
    return shown


def _show_grader(grader: Grader, tasks: int, graders: int) -> RenderableType:
    fields = [
        ("command", format_command(grader.command)),
        ("folder", f"{grader.dir.path}  {grader.dir.digest}" if grader.dir else ""),
        ("environment", _pairs(grader.env.items())),
        ("secrets", ", ".join(grader.secrets)),
        ("network", describe_network(grader.network)),
        ("time limit", describe_time(grader.timeout_s)),
        ("passes at", f"{grader.pass_at:g}"),
        ("metric", _describe_metric(grader.metric) if grader.metric else ""),
        ("retries", str(grader.retries)),
    ]
    head = "grader" if graders == 1 else f"grader of {format_count(tasks, 'task')}"
    return stack(
        make_line(""),
        make_line(head),
        indent(make_fields([(name, value) for name, value in fields if value])),
    )


def _describe_metric(metric: DeclaredMetric) -> str:
    bounds = [
        f"{word} {end:g}" for word, end in (("from", metric.min), ("to", metric.max)) if end is not None
    ]
    return ", ".join([metric.name, f"{metric.better} is better", *([" ".join(bounds)] if bounds else [])])


def describe_limits(limits: AgentLimits) -> str:
    """Say what one attempt may use of its models; empty where that is not limited."""
    given = [
        (limits.cost_usd, "USD"),
        (limits.tokens, "tokens"),
        (limits.requests, "requests"),
    ]
    told = ", ".join(f"{amount:,g} {unit}" for amount, unit in given if amount is not None)
    return f"{told} an attempt" if told else ""


def _show_models(experiment: Experiment) -> list[RenderableType]:
    """Show who answers, and by whose key."""
    if not experiment.models:
        return []
    fields = [(entry.name, _describe_model(entry)) for entry in experiment.models]
    return [make_line(""), make_line("models (through the gateway)"), indent(make_fields(fields))]


def _describe_model(entry: ModelEntry) -> str:
    if entry.script is not None:
        where = f"answered by the script {entry.script.path}  {entry.script.digest}"
    else:
        where = entry.base_url or "at its own provider"
        where += f", key in {entry.key}" if entry.key else ", no key"
    told = [f"{entry.dialect}: {where}"]
    told += [f"prices of {', '.join(entry.prices)}"] if entry.prices else []
    told += [f"may carry out {', '.join(entry.server_tools)} itself"] if entry.server_tools else []
    told += [
        f"{entry.max_connections} requests at once, {format_count(entry.max_retries, 'retry', 'retries')}"
    ]
    return "; ".join(told)


def _describe_program(program: Program) -> list[tuple[str, str]]:
    scorers = [
        f"{each['name']} ({', '.join(m['name'] for m in each['metrics'])})" for each in program.scorers
    ]
    return [
        ("task", f"@task {program.task}"),
        ("arguments", _pairs(program.arguments.items())),
        ("model", program.model or ""),
        ("settings", _pairs(program.config.items())),
        ("limits", _pairs(program.limits.items())),
        ("solvers", ", ".join(step["name"] for step in program.steps)),
        ("scorers", ", ".join(scorers)),
        ("modules", _first(program.modules, FIRST_TASKS)),
    ]


def describe_policy(policy: Policy, concurrency: int | None) -> list[tuple[str, str]]:
    """Say how a run is carried out."""
    at_once = str(policy.max_concurrency)
    if policy.max_concurrency == "auto" and concurrency is not None:
        at_once = f"auto: {concurrency} here"
    return [
        ("at once", at_once),
        ("fail_on_error", describe_threshold(policy.fail_on_error, continue_on_fail=policy.continue_on_fail)),
        ("retry_on_error", str(policy.retry_on_error)),
        ("keep", f"workspace {policy.keep.workspace}, logs {policy.keep.logs}"),
        ("min_free_disk_gb", f"{policy.min_free_disk_gb:g}"),
        *([("budget", told)] if (told := describe_budget(policy.budget)) else ()),
        *([("replay", f"{policy.replay} ({policy.replay_mode})")] if policy.replay else ()),
        *([("max_connections", str(policy.max_connections))] if policy.max_connections else ()),
    ]


def describe_threshold(fail_on_error: bool | float, *, continue_on_fail: bool) -> str:
    """Say when the run fails because of errors."""
    when = "after everything was run" if continue_on_fail else "at once"
    if fail_on_error is True:
        return f"true: the first trial that ends with an error fails the run {when}"
    if fail_on_error is False:
        return "false: errors never fail the run"
    many = f"{fail_on_error:.4g} of the planned trials" if fail_on_error < 1 else f"{fail_on_error:g} trials"
    return f"{fail_on_error:g}: errors in more than {many} fail the run {when}"


def _show_schedule(experiment: Experiment) -> RenderableType:
    schedule = Schedule.of(experiment)
    rows = []
    for slot in islice(schedule, FIRST_SLOTS):
        variant, task = experiment.variants[slot.variant_idx].id, experiment.tasks[slot.task_idx].id
        trial = make_trial_id(variant, task, slot.repl_idx)
        rows.append((str(slot.schedule_idx), task, variant, str(slot.repl_idx), trial))
    more = len(schedule) - len(rows)
    return stack(
        make_table(("slot", "task", "variant", "repl", "trial"), rows, numbers=("slot", "repl")),
        make_line(f"and {format_count(more, 'more slot')}") if more else None,
    )


def format_command(command: Sequence[str]) -> str:
    """Write a command as one would type it; `${name}` stands where the sandbox fills in a path.

    Of a whole script only how it begins.
    """
    return " ".join(
        part if part and not set(part) & set(" '\"\\;&|<>()*?\n") else _quote(part) for part in command
    )


def _quote(part: str) -> str:
    if len(part) <= LONGEST_WORD:
        return repr(part)
    return f"{part[:SHOWN_OF_SCRIPT].rstrip()!r}… ({len(part):,} characters, all in {flag('json')})"


def _first(items: Iterable[str], count: int) -> str:
    taken = list(islice(items, count + 1))
    return ", ".join([*taken[:count], "..."] if len(taken) > count else taken)


def _pairs(items: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in items)
