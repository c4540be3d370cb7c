"""Harbor's task folders as experiments: every word of a task, kept as it was written."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment, Network, TaskAgent
from labrunner.experiment.resolving.load import load
from labrunner.interop.importers.harbor import import_harbor
from labrunner.interop.importers.harbor_task import NO_LIMIT_S, without_canary
from labrunner.interop.importers.reviewable import write_import
from labrunner.trial.phases import merged_agent, merged_plan
from tests.kit.interop.harbor_tasks import TOML, write_task

ANY_AGENT = Overrides(sets=(("agent.command", "[run-agent]"),))


def load_harbor(folder: Path, overrides: Overrides = ANY_AGENT) -> Experiment:
    return load(Path(f"harbor:{folder}"), overrides)


def test_a_single_task_is_an_experiment_of_one_task(tmp_path: Path) -> None:
    experiment = load_harbor(write_task(tmp_path / "hello"))
    [task] = experiment.tasks
    assert (experiment.name, task.id, task.prompt) == ("hello", "hello", "Write 42 into answer.txt.\n")
    assert task.build is not None
    assert task.build.path == str(tmp_path / "hello" / "environment")
    assert task.grader.dir is not None
    assert task.grader.dir.path == str(tmp_path / "hello" / "tests")
    assert (task.timeout_s, task.grader.timeout_s, task.build_timeout_s) == (60.0, 30.0, 120.0)
    plan = merged_plan(task, experiment.variants[0])
    assert (plan.kind, plan.workdir, plan.image) == ("docker", "/app", None)
    assert (plan.cpus, plan.memory_mb, plan.disk_mb) == (1.0, 256, 1024)
    assert set(plan.asked) == {"cpus", "memory_mb", "disk_mb"}
    assert task.tags == ("files",)
    assert task.metadata == {"difficulty": "easy"}


def test_a_folder_of_tasks_is_an_experiment_of_all_of_them_in_the_order_of_their_names(
    tmp_path: Path,
) -> None:
    for name in ("b", "a", "c"):
        write_task(tmp_path / "set" / name)
    (tmp_path / "set" / "docs").mkdir()
    assert [task.id for task in load_harbor(tmp_path / "set").tasks] == ["a", "b", "c"]


def test_what_is_no_task_folder_is_refused_with_what_was_found(tmp_path: Path) -> None:
    write_task(tmp_path / "repo" / "tasks" / "a")
    with pytest.raises(InputError, match="there are tasks in tasks: name that"):
        import_harbor(tmp_path / "repo")
    with pytest.raises(InputError, match="is a file"):
        import_harbor(tmp_path / "repo" / "tasks" / "a" / "task.toml")
    (tmp_path / "set" / "half").mkdir(parents=True)
    (tmp_path / "set" / "half" / "instruction.md").write_text("x")
    [reason, *_] = import_harbor(tmp_path / "set").refused["half"]
    assert str(reason) == f"{tmp_path}/set/half/task.toml: can't be read: No such file or directory"


def test_a_run_of_a_refused_task_is_refused_and_one_of_the_others_is_not(tmp_path: Path) -> None:
    write_task(tmp_path / "a")
    write_task(tmp_path / "b", f"{TOML}gpus = 2\n")
    with pytest.raises(InputErrors) as caught:
        load_harbor(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/b/task.toml: environment.gpus: GPUs are not built\n"
        f"harbor:{tmp_path}: 1 of 2 tasks can't be run here as they are written: "
        "`lab doctor` lists why; --task-id chooses others"
    )
    chosen = load_harbor(tmp_path, replace(ANY_AGENT, task_ids=("a",)))
    assert [task.id for task in chosen.tasks] == ["a"]


@pytest.mark.parametrize("names", [("b",), ("a", "b")])
def test_of_a_refused_task_nothing_is_said_but_why(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        write_task(tmp_path / name, f"{TOML}gpus = 2\n" if name == "b" else TOML)
    with pytest.raises(InputErrors) as caught:
        load_harbor(tmp_path, Overrides(agents=("oracle",)))
    assert [each.problem for each in caught.value.problems] == [
        "GPUs are not built",
        f"1 of {len(names)} tasks can't be run here as they are written: "
        "`lab doctor` lists why; --task-id chooses others",
    ]


def test_users_variables_artifacts_and_secrets_go_where_they_belong(tmp_path: Path) -> None:
    toml = """
artifacts = ["out", {source = "/var/log/app"}]
[task]
name = "org/hello"
keywords = ["shell"]
[agent]
user = 1000
[verifier]
user = "tester"
env = {GRADE = "a$b", OPENAI_API_KEY = "${OPENAI_API_KEY}"}
[environment.env]
MODE = "fast"
[solution.env]
HINT = "x"
"""
    [task] = load_harbor(write_task(tmp_path / "one", toml)).tasks
    assert task.agent == TaskAgent(user="1000", network=Network(mode="full"))
    assert task.env == {"MODE": "fast"}
    assert task.grader.env == {"GRADE": "a$$b", "LAB_TEST_USER": "tester"}
    assert task.grader.secrets == ("OPENAI_API_KEY",)
    assert task.collect == ("/app/out", "/var/log/app")
    assert task.solution is not None
    assert (task.solution.dir, task.solution.env) == (str(tmp_path / "one" / "solution"), {"HINT": "x"})
    assert task.tags == ("shell",)
    assert task.timeout_s == NO_LIMIT_S
    assert task.grader.timeout_s == 600


def test_the_image_is_named_or_built_and_its_folder_is_that_of_its_dockerfile(
    tmp_path: Path,
) -> None:
    first = "FROM a AS first\nWORKDIR /one\nUSER app\n"
    dockerfile = f"{first}FROM first\nENV ROOT=/srv PYTHONPATH=/lib\nWORKDIR sub\nWORKDIR $ROOT/x\n"
    named = f'{TOML}docker_image = "team/image:1"\n'
    [task] = load_harbor(write_task(tmp_path / "one", named, dockerfile=dockerfile)).tasks
    assert (task.image, task.build, task.workdir) == ("team/image:1", None, "/srv/x")
    assert task.grader.env == {"PYTHONPATH": "/lib"}  # who the image says is asked of the image


def test_a_health_check_is_a_loop_in_setup(tmp_path: Path) -> None:
    toml = "[environment.healthcheck]\ncommand = 'test -e /ready'\nretries = 2\ninterval_sec = 1.5\n"
    [task] = load_harbor(write_task(tmp_path / "one", toml)).tasks
    assert task.setup is not None
    assert task.setup.command[3:] == ("setup", "test -e /ready", "1.5", "30", "0", "5", "2")
    assert (task.setup.user, task.setup.network) == ("root", Network(mode="full"))
    assert task.setup.timeout_s == 120 + 0 + 5 + 2 * 31.5


def test_instructions_are_read_without_what_marks_them_in_training_data() -> None:
    assert without_canary("<!-- harbor-canary GUID 1 -->\n# canary 2\n\n\nDo it.\n") == "Do it.\n"
    assert without_canary("# Canaries sing\nDo it.") == "# Canaries sing\nDo it."
    assert without_canary("\n\nDo it.\n# canary\n") == "Do it.\n# canary\n"


words = st.sampled_from(["public", "no-network", "allowlist", None])
hosts = st.lists(
    st.sampled_from(["files.example.org", "*.example.com", "192.0.2.7", "2001:db8::1"]), unique=True
)
seconds = st.one_of(st.none(), st.floats(min_value=0.5, max_value=1e5), st.integers(1, 100_000))
sizes = st.one_of(st.none(), st.integers(1, 1_000_000))
policies = st.tuples(words, hosts).map(lambda each: (each[0], each[1] if each[0] == "allowlist" else None))


def wanted(own: tuple[str | None, list[str] | None], base: Network) -> Network:
    mode, allowed = own
    if mode is None:
        return base
    lines = tuple(f"[{host}]" if ":" in host else host for host in allowed or ())
    return {"public": Network(mode="full"), "no-network": Network(mode="none")}.get(mode) or (
        Network(mode="allow", hosts=lines) if lines else Network(mode="none")
    )


@given(
    agent=policies, verifier=policies, environment=policies, times=st.tuples(seconds, seconds, seconds),
    limits=st.tuples(st.one_of(st.none(), st.floats(0.1, 64)), sizes, sizes),
    internet=st.one_of(st.none(), st.booleans()), is_old=st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_declared_limit_time_or_network_word_is_changed(
    agent: tuple[str | None, list[str] | None],
    verifier: tuple[str | None, list[str] | None],
    environment: tuple[str | None, list[str] | None],
    times: tuple[float | None, ...],
    limits: tuple[float | None, ...],
    internet: bool | None,
    is_old: bool,
    tmp_path: Path,
) -> None:
    def table(policy: tuple[str | None, list[str] | None], **more: float | str | None) -> dict[str, object]:
        said = {"network_mode": policy[0], "allowed_hosts": policy[1], **more}
        return {name: value for name, value in said.items() if value is not None}

    cpus, memory, storage = limits
    data = {
        "agent": table(agent, timeout_sec=times[0]),
        "verifier": table(verifier, timeout_sec=times[1]),
        "environment": table(
            environment,
            build_timeout_sec=times[2],
            cpus=cpus,
            allow_internet=internet,
            **({"memory": f"{memory}M" if memory else None} if is_old else {"memory_mb": memory}),
            storage_mb=storage,
        ),
    }
    text = "\n".join(
        f"[{section}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())
        for section, fields in data.items()
    )
    assert tomllib.loads(text) == data
    experiment = load_harbor(write_task(tmp_path / "one", text))
    task, variant = experiment.tasks[0], experiment.variants[0]
    base = wanted(environment, Network(mode="none" if internet is False else "full"))
    assert merged_agent(task, variant).network == wanted(agent, base)
    assert task.grader.network == wanted(verifier, base)
    said = (times[0] or NO_LIMIT_S, times[1] or 600.0, times[2] or 600.0)
    assert (task.timeout_s, task.grader.timeout_s, task.build_timeout_s) == said
    plan = merged_plan(task, variant)
    assert (task.resources.cpus, task.resources.memory_mb, task.resources.disk_mb) == limits
    for name, value in (("cpus", cpus), ("memory_mb", memory), ("disk_mb", storage)):
        assert (name in plan.asked) == (value is not None)
        assert value is None or getattr(plan, name) == value


def test_an_import_asks_the_same_question_as_a_run_of_the_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_task(tmp_path / "set" / name)
    (tmp_path / "set" / "a" / "environment" / "data").mkdir()
    (tmp_path / "set" / "a" / "environment" / "data" / "x.pyc").write_bytes(b"\0")
    written = write_import("harbor", tmp_path / "set", tmp_path / "mine")
    assert written.tasks == 2
    mine = load(tmp_path / "mine", ANY_AGENT)
    assert mine.digest == load_harbor(tmp_path / "set").digest
    assert all(str(tmp_path / "mine") in task.grader.dir.path for task in mine.tasks if task.grader.dir)
    assert not (tmp_path / "mine" / "set").exists()


def test_an_import_never_overwrites_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    write_task(tmp_path / "set" / "a")
    write_task(tmp_path / "set" / "b", f"{TOML}gpus = 2\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        write_import("harbor", tmp_path / "set", tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]
    with pytest.raises(InputErrors, match="GPUs are not built"):
        write_import("harbor", tmp_path / "set", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "set"]


def test_refused_tasks_are_left_out_of_an_import_only_when_asked_and_named_in_it(tmp_path: Path) -> None:
    write_task(tmp_path / "set" / "a")
    write_task(tmp_path / "set" / "b", f"{TOML}gpus = 2\n")
    written = write_import("harbor", tmp_path / "set", tmp_path / "mine", skips_refused=True)
    assert (written.tasks, list(written.left_out)) == (1, ["b"])
    assert load(tmp_path / "mine", ANY_AGENT).metadata == {"left_out": ["b"]}
    chosen = write_import("harbor", tmp_path / "set", tmp_path / "chosen", patterns=["a"])
    assert (chosen.tasks, chosen.left_out) == (1, {})
