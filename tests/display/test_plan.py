from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.display.plan import (
    describe_limits,
    describe_threshold,
    format_command,
    show_plan,
)
from labrunner.display.tasks_own import describe_network, describe_sandboxes
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import (
    AgentLimits,
    DeclaredMetric,
    Experiment,
    Folder,
    ModelEntry,
    ModelPrice,
    Network,
    Order,
)
from labrunner.experiment.resolving.load import load
from labrunner.experiment.run_policy import Keep
from labrunner.policy.budget import Budget
from labrunner.runner.upkeep.footprint import Footprint
from tests.kit.display.printing import to_text
from tests.kit.interop.harbor_tasks import write_task

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart" / "experiment.yaml"


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load(QUICKSTART)


def lines_of(
    experiment: Experiment, *, concurrency: int | None = None, footprint: Footprint | None = None
) -> list[str]:
    told = to_text(show_plan(experiment, concurrency=concurrency, footprint=footprint), width=200)
    return [" ".join(line.split()) for line in told.splitlines()]


def test_the_plan_tells_what_would_run(experiment: Experiment) -> None:
    lines = lines_of(experiment, concurrency=3)
    for expected in (
        f"digest {experiment.digest}",
        "tasks 12: clamp, sum-to, leap-year, gcd, is-prime, ...",
        "variants 2, the baseline is v1",
        "replications 3",
        "order balanced",
        "trials 72",
        "variant v2",
        "agent ${python} -I ${agent_dir}/agent.py --budget 40",
        "command ${python} -I ${grader_dir}/grade.py",
        "at once auto: 3 here",
        "and 66 more slots",
    ):
        assert expected in lines


@pytest.mark.parametrize(
    ("keep", "told"),
    [
        ("failed", "; workspaces of trials that don't pass too, 2.0 MB in all as they start"),
        ("always", "; workspaces too, 2.0 MB in all as they start"),
        ("never", ""),
    ],
)
def test_the_plan_tells_what_disk_it_takes(experiment: Experiment, keep: Keep, told: str) -> None:
    footprint = Footprint(records=1_000_000, workspaces=2_000_000, at_once=3_000, limit=4_000_000_000)
    policy = replace(experiment.policy, keep=replace(experiment.policy.keep, workspace=keep))
    lines = lines_of(replace(experiment, policy=policy), footprint=footprint)
    assert f"disk about 1.0 MB of rows, inputs and logs stay{told}" in lines
    assert "disk at once 3.0 kB of workspaces as they start, 4.0 GB by their limits" in lines


def test_without_sandboxes_only_records_take_disk(experiment: Experiment) -> None:
    footprint = Footprint(records=1_000_000, workspaces=0, at_once=0, limit=0)
    lines = lines_of(experiment, footprint=footprint)
    assert "disk about 1.0 MB of rows, inputs and logs stay" in lines
    assert not [line for line in lines if line.startswith("disk at once")]


def test_the_first_slots_stand_in_schedule_order(experiment: Experiment) -> None:
    lines = lines_of(experiment)
    first = lines.index("slot task variant repl trial") + 2
    assert [line.split()[:4] for line in lines[first : first + 3]] == [
        ["0", "clamp", "v1", "0"],
        ["1", "clamp", "v2", "0"],
        ["2", "sum-to", "v1", "0"],
    ]


def test_hidden_answers_are_not_printed(experiment: Experiment) -> None:
    task = replace(experiment.tasks[0], target={"answer": "sesame"})
    told = to_text(show_plan(replace(experiment, tasks=(task, *experiment.tasks[1:]))), width=200)
    assert "sesame" not in told


def test_graders_of_single_tasks_are_shown_apart(experiment: Experiment) -> None:
    task = experiment.tasks[0]
    own = replace(task, grader=replace(task.grader, command=("sh", "-c", "true")))
    lines = lines_of(replace(experiment, tasks=(own, *experiment.tasks[1:])))
    assert "grader of 1 task" in lines
    assert "grader of 11 tasks" in lines


def test_a_seed_is_told_only_where_it_matters(experiment: Experiment) -> None:
    assert "order shuffled, seed 7" in lines_of(replace(experiment, order=Order.SHUFFLED, seed=7))
    assert "order balanced" in lines_of(replace(experiment, seed=7))


def test_a_budget_is_told_where_there_is_one(experiment: Experiment) -> None:
    limited = replace(experiment.policy, budget=Budget(cost_usd=20.0, tokens=5_000_000))
    assert "budget 20 USD, 5,000,000 tokens" in lines_of(replace(experiment, policy=limited))
    assert not [line for line in lines_of(experiment) if line.startswith("budget ")]


@pytest.mark.parametrize("width", [20, 80])
def test_no_line_is_wider_than_the_terminal(experiment: Experiment, width: int) -> None:
    assert max(len(line) for line in to_text(show_plan(experiment), width).splitlines()) <= width


def test_commands_are_written_as_one_would_type_them() -> None:
    assert format_command(("sh", "-c", "echo a b", "")) == "sh -c 'echo a b' ''"


def test_of_a_whole_script_only_the_beginning_is_shown() -> None:
    told = format_command(("sh", "-c", "echo $$1\n" * 500))
    assert told.startswith("sh -c 'echo $$1\\necho")
    assert told.endswith("… (4,500 characters, all in --json)")
    assert len(told) < 200


def test_the_plan_tells_who_answers_and_by_whose_key(experiment: Experiment) -> None:
    script = Folder(path="/e/answers.json", digest="sha256:1")
    models = (
        ModelEntry(name="own", dialect="openai", key="OPENAI_API_KEY", server_tools=("web_search",)),
        ModelEntry(name="mock", dialect="gemini", script=script, max_retries=1),
        ModelEntry(
            name="near", dialect="openai", base_url="http://h/v1", prices={"m": ModelPrice(input=1, output=2)}
        ),
    )
    first, *rest = experiment.variants
    lines = lines_of(replace(experiment, variants=(replace(first, models=models), *rest)))
    for expected in (
        "models (through the gateway)",
        "own openai: at its own provider, key in OPENAI_API_KEY; may carry out web_search itself; "
        "10 requests at once, 5 retries",
        "mock gemini: answered by the script /e/answers.json sha256:1; 10 requests at once, 1 retry",
        "near openai: http://h/v1, no key; prices of m; 10 requests at once, 5 retries",
    ):
        assert expected in lines
    assert "models (through the gateway)" not in lines_of(experiment)


def test_networks_and_limits_are_told_in_words(experiment: Experiment) -> None:
    assert describe_network(Network(mode="none")) == "none"
    assert describe_network(Network(mode="allow", hosts=("a.example", "b.example"))) == (
        "allowed: a.example, b.example"
    )
    assert describe_network(Network(mode="none", models=("a", "b"))) == "models: a, b"
    assert describe_network(Network(mode="allow", models=("a",), hosts=("h",))) == "models: a; allowed: h"
    assert describe_network(Network(mode="full", models=("a",))) == "models: a; full"
    assert describe_limits(AgentLimits()) == ""
    limits = AgentLimits(cost_usd=0.5, tokens=100_000, requests=3)
    assert describe_limits(limits) == "0.5 USD, 100,000 tokens, 3 requests an attempt"
    plan = replace(experiment.variants[0].sandbox, kind="docker", image="my/image:1", asked=("cpus",))
    variant = replace(experiment.variants[0], sandbox=plan)
    assert describe_sandboxes(experiment.tasks, variant) == (
        "docker my/image:1; 2 cpus, 2048 MB memory, 512 processes, 10240 MB disk (enforced; asked for: cpus)"
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (True, "true: the first trial that ends with an error fails the run at once"),
        (False, "false: errors never fail the run"),
        (0.1, "0.1: errors in more than 0.1 of the planned trials fail the run at once"),
        (5, "5: errors in more than 5 trials fail the run at once"),
    ],
)
def test_the_threshold_is_told_in_words(value: bool | float, told: str) -> None:
    assert describe_threshold(value, continue_on_fail=False) == told


def test_limits_times_and_networks_are_those_of_the_tasks(tmp_path: Path) -> None:
    write_task(tmp_path / "set" / "a")
    lines = lines_of(load(Path(f"harbor:{tmp_path}/set"), Overrides(agents=("noop",))))
    assert "images built for 1 task" in lines
    assert "network none" in lines
    limits = "1 cpus, 256 MB memory, 512 processes, 1024 MB disk"
    assert f"sandbox docker; {limits} (enforced; asked for: cpus, disk_mb, memory_mb)" in lines
    write_task(tmp_path / "set" / "b", "[environment]\ncpus = 4\nstorage_mb = 2048\nworkdir = '/w'\n")
    lines = lines_of(load(Path(f"harbor:{tmp_path}/set"), Overrides(agents=("oracle",))))
    assert "network none; or full, by task" in lines
    assert "time limit 60 s to 31,536,000 s (365 days), by task" in lines
    limits = "1 to 4 cpus, 256 to 2048 MB memory, 512 processes, 1024 to 2048 MB disk"
    assert f"sandbox docker; {limits} (enforced; asked for: cpus, disk_mb, memory_mb)" in lines


def test_a_plan_with_too_few_tasks_to_speak_of_others_says_so(experiment: Experiment) -> None:
    few = replace(experiment, tasks=experiment.tasks[:5])
    (told,) = [line for line in lines_of(few) if line.startswith("population")]
    assert told == (
        "population tasks like these, of which 5 tasks will tell nothing: it takes 6; "
        "`population: these_tasks` asks about these only"
    )
    assert not [line for line in lines_of(experiment) if line.startswith("population")]
    fixed = replace(few, population="these_tasks")
    assert "population these tasks: nothing will be concluded about others" in lines_of(fixed)


def test_a_plan_with_too_few_tasks_for_its_comparisons_says_how_many_it_takes(experiment: Experiment) -> None:
    first = experiment.variants[0]
    three = tuple(replace(first, id=name) for name in ("a", "b", "c"))
    grown = (*experiment.tasks, *(replace(experiment.tasks[0], id=f"more{n}") for n in range(7)))
    for tasks, told in (
        (
            6,
            ["population tasks like these, of which 6 tasks show none of 2 comparisons of rates: it takes 7"],
        ),
        (7, []),
    ):
        plan = replace(experiment, tasks=grown[:tasks], variants=three)
        assert [line for line in lines_of(plan) if line.startswith("population")] == told


def test_a_plan_of_few_single_trials_says_that_they_show_nothing_of_these_either(
    experiment: Experiment,
) -> None:
    few = replace(experiment, tasks=experiment.tasks[:5], replications=1)
    (told,) = [line for line in lines_of(few) if line.startswith("population")]
    assert told.endswith("`population: these_tasks` asks about these only, which takes replications")
    fixed = [line for line in lines_of(replace(few, population="these_tasks")) if "population" in line]
    assert "one trial each of so few shows no difference of rates" in " ".join(fixed)


def test_a_declared_metric_is_told(experiment: Experiment) -> None:
    metric = DeclaredMetric(name="seconds", better="lower", min=0.0)
    tasks = tuple(replace(task, grader=replace(task.grader, metric=metric)) for task in experiment.tasks)
    assert "metric seconds, lower is better, from 0" in lines_of(replace(experiment, tasks=tasks))
