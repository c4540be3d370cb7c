"""Every field of Harbor's own schema is mapped or refused; none is passed over."""

import os
from pathlib import Path

import pytest

from labrunner.errors import InputErrors
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolving.load import load
from labrunner.interop.importers.foreign_files import MOST
from labrunner.interop.importers.harbor_fields import MAPPED, REFUSED
from labrunner.interop.importers.harbor_task import read_harbor_task
from tests.kit.interop.harbor_tasks import TOML, write_task

ENVIRONMENT = (
    "build_timeout_sec docker_image os cpus memory_mb storage_mb gpus gpu_types tpu mcp_servers env "
    "skills_dir healthcheck workdir allow_internet network_mode allowed_hosts memory storage"
)
# Of `TaskConfig` and what it holds, in harbor 0.25.0; `version`, `memory` and `storage` are its old names.
SCHEMA = {
    "": "schema_version version task metadata verifier agent environment solution source "
    "multi_step_reward_strategy steps artifacts",
    "task": "name version description authors keywords",
    "agent": "timeout_sec user network_mode allowed_hosts",
    "verifier": "timeout_sec env user environment_mode environment collect network_mode allowed_hosts",
    "environment": ENVIRONMENT,
    "environment.healthcheck": "command interval_sec timeout_sec start_period_sec start_interval_sec retries",
    "solution": "env",
}
EVERY = [f"{table}.{name}".strip(".") for table, names in SCHEMA.items() for name in names.split()]


def test_every_field_of_the_schema_is_mapped_or_refused_and_none_is_both() -> None:
    assert sorted(EVERY) == sorted({*MAPPED, *REFUSED})
    assert not set(MAPPED) & set(REFUSED)


# Two things that a field may say, where one is not enough: nothing of it may be lost on the way.
SPEAKS = {
    "schema_version": ("'1.0'", "'2.0'"),
    "version": ("'1.0'", "'2.0'"),
    "source": ("'a'", "'b'"),
    "artifacts": ("['a']", "[{source = 'b'}]"),
    "metadata": ("{difficulty = 'easy'}", "{difficulty = 'hard'}"),
    "task.name": ("'org/a'", "'org/b'"),
    "task.version": ("'1'", "'2'"),
    "task.description": ("'a'", "'b'"),
    "task.authors": ("[{name = 'a', email = 'a@b'}]", "[{name = 'a', email = 'b@b'}]"),
    "task.keywords": ("['a']", "['b']"),
    "agent.timeout_sec": ("60", "61.5"),
    "agent.user": ("'a'", "1000"),
    "agent.network_mode": ("'public'", "'no-network'"),
    "agent.allowed_hosts": ("['a.example']", "['b.example']"),
    "verifier.timeout_sec": ("60", "61.5"),
    "verifier.env": ("{A = 'x'}", "{A = '${A}'}"),
    "verifier.user": ("'a'", "1000"),
    "verifier.environment_mode": ("'shared'", "'separate'"),
    "verifier.network_mode": ("'public'", "'no-network'"),
    "verifier.allowed_hosts": ("['a.example']", "['b.example']"),
    "environment.build_timeout_sec": ("60", "61.5"),
    "environment.docker_image": ("'a:1'", "'b:1'"),
    "environment.os": ("'linux'", "'windows'"),
    "environment.cpus": ("1", "2"),
    "environment.memory_mb": ("256", "512"),
    "environment.memory": ("'1G'", "'2G'"),
    "environment.storage_mb": ("1024", "2048"),
    "environment.storage": ("'1G'", "'2G'"),
    "environment.env": ("{A = 'x'}", "{A = 'y'}"),
    "environment.workdir": ("'/srv'", "'/app'"),
    "environment.healthcheck": ("{command = 'a'}", "{command = 'b'}"),
    "environment.healthcheck.command": ("'a'", "'b'"),
    "environment.healthcheck.interval_sec": ("1", "2"),
    "environment.healthcheck.timeout_sec": ("1", "2"),
    "environment.healthcheck.start_period_sec": ("1", "2"),
    "environment.healthcheck.start_interval_sec": ("1", "2"),
    "environment.healthcheck.retries": ("1", "2"),
    "environment.network_mode": ("'public'", "'no-network'"),
    "environment.allowed_hosts": ("['a.example']", "['b.example']"),
    "environment.allow_internet": ("true", "false"),
    "solution.env": ("{A = 'x'}", "{A = 'y'}"),
}
TABLES = ("task", "agent", "verifier", "environment", "solution")


def test_every_mapped_field_is_tried_with_two_values() -> None:
    assert sorted(SPEAKS) == sorted({*MAPPED} - {*TABLES})


@pytest.mark.parametrize("name", SPEAKS)
def test_what_a_mapped_field_says_makes_a_difference_or_is_refused(name: str, tmp_path: Path) -> None:
    table, _, key = name.rpartition(".")
    head = f"[{table}]\n" if table else ""
    head += "command = 'true'\n" if table.endswith("healthcheck") and key != "command" else ""
    head += "network_mode = 'allowlist'\n" if key == "allowed_hosts" else ""
    found = []
    for value in SPEAKS[name]:
        task = read_harbor_task(write_task(tmp_path / "one", f"{head}{key} = {value}\n"))
        found.append((task.row, [each.where for each in task.refused]))
    assert found[0] != found[1]
    assert found[0][1] == []
    assert found[1][1] in ([], [f"{tmp_path}/one/task.toml: {name}"])


@pytest.mark.parametrize("key", ["destination", "exclude", "service"])
def test_of_an_artifact_nothing_but_its_source_can_be_had(key: str, tmp_path: Path) -> None:
    """Of `ArtifactConfig` in harbor 0.25.0: source, destination, exclude, service."""
    value = "['x']" if key == "exclude" else "'x'"
    task = read_harbor_task(
        write_task(tmp_path / "one", f"artifacts = [{{source = '/x', {key} = {value}}}]\n")
    )
    assert [each.where for each in task.refused] == [f"{tmp_path}/one/task.toml: artifacts.0.{key}"]


# What each refused field may say, and where the refusal must point.
SAID = {
    "steps": '[[steps]]\nname = "one"\n',
    "multi_step_reward_strategy": 'multi_step_reward_strategy = "final"\n',
    "verifier.environment": "[verifier.environment]\ncpus = 1\n",
    "verifier.collect": '[[verifier.collect]]\ncommand = "dump"\n',
    "environment.gpus": "[environment]\ngpus = 1\n",
    "environment.gpu_types": '[environment]\ngpu_types = ["H100"]\n',
    "environment.tpu": '[environment]\ntpu = {type = "v4", topology = "2x2"}\n',
    "environment.skills_dir": '[environment]\nskills_dir = "/skills"\n',
    "environment.mcp_servers": '[[environment.mcp_servers]]\nname = "x"\nurl = "http://x"\n',
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_field_that_cant_be_had_is_refused_by_file_and_field(name: str, tmp_path: Path) -> None:
    task = read_harbor_task(write_task(tmp_path / "one", SAID[name]))
    assert [str(each) for each in task.refused] == [f"{tmp_path}/one/task.toml: {name}: {REFUSED[name]}"]


@pytest.mark.parametrize(
    ("toml", "field"),
    [
        ("colour = 'red'\n", "colour"),
        ("[environment]\ncpu = 2\n", "environment.cpu"),
        ("[agent]\ntimeout_s = 2\n", "agent.timeout_s"),
        ("[verifier]\nretries = 2\n", "verifier.retries"),
        ("[environment.healthcheck]\ncommand = 'true'\nrounds = 2\n", "environment.healthcheck.rounds"),
        ("schema_version = '2.0'\n", "schema_version"),
        ("[environment]\nos = 'windows'\n", "environment.os"),
        ("[environment]\nmemory = '2G'\nmemory_mb = 512\n", "environment.memory"),
        ("[environment]\nmemory = '1000K'\n", "environment.memory"),
        ("[environment]\ncpus = 0\n", "environment.cpus"),
        ("[environment]\nmemory_mb = 1.5\n", "environment.memory_mb"),
        ("[agent]\ntimeout_sec = 'soon'\n", "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = 0\n", "agent.timeout_sec"),
        ("[verifier]\nenvironment_mode = 'separate'\n", "verifier.environment_mode"),
        ("[environment]\nnetwork_mode = 'some'\n", "environment.network_mode"),
        ("[environment]\nallowed_hosts = ['a.b']\n", "environment.allowed_hosts"),
        (
            "[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['10.0.0.0/8']\n",
            "environment.allowed_hosts",
        ),
        ("[environment.env]\nKEY = '${OTHER}'\n", "environment.env.KEY"),
        ("[environment.env]\nKEY = '${KEY}'\n", "environment.env.KEY"),
        ("[environment.env]\nHOME = '/x'\n", "environment.env.HOME"),
        ("[verifier.env]\nKEY = '${KEY:-none}'\n", "verifier.env.KEY"),
        ("artifacts = ['../x']\n", "artifacts.0"),
        ("artifacts = [{source = '/x', exclude = ['y']}]\n", "artifacts.0.exclude"),
        ("[environment]\nworkdir = 'here'\n", "environment.workdir"),
        ("[environment]\nworkdir = '/tests/x'\n", "environment.workdir"),
    ],
)
def test_what_is_unknown_or_wrong_is_refused_by_file_and_field(toml: str, field: str, tmp_path: Path) -> None:
    task = read_harbor_task(write_task(tmp_path / "one", toml))
    assert [each.where for each in task.refused] == [f"{tmp_path}/one/task.toml: {field}"]


ODD = {
    "truth": "true",
    "zero": "0",
    "negative": "-1",
    "fraction": "1.5",
    "huge": "9007199254740993000",
    "no number": "nan",
    "text": "'x'",
    "empty": "''",
    "list": "[]",
    "list of numbers": "[1, 2]",
    "table": "{a = 1}",
    "date": "2026-01-01",
    "time": "07:32:00",
}
"""Values that a field may hold though nobody meant them."""
NO_WORDS_OF_OURS = ("None", "Traceback", "Errno", "TypeError", "<class", "datetime", "input should", "valid ")


@pytest.mark.parametrize("name", [name for name in MAPPED if name != ""])
def test_whatever_a_field_holds_is_taken_or_refused_by_file_and_field_in_plain_words(
    name: str, tmp_path: Path
) -> None:
    table, _, key = name.rpartition(".")
    for number, value in enumerate(ODD.values()):
        head = f"[{table}]\n" if table else ""
        head += "command = 'true'\n" if "healthcheck." in name and key != "command" else ""
        folder = write_task(tmp_path / str(number) / "one", f"{head}{key} = {value}\n")
        try:
            load(Path(f"harbor:{folder}"), Overrides(agents=("oracle",)))
        except InputErrors as error:
            for problem in error.problems[:-1]:  # the last says how many tasks are refused
                assert problem.where.startswith(f"{folder}/task.toml: {name}"), problem
                assert not [each for each in NO_WORDS_OF_OURS if each in problem.problem], problem


def test_fields_that_cant_be_had_may_say_nothing(tmp_path: Path) -> None:
    toml = "steps = []\n[environment]\ngpus = 0\nmcp_servers = []\n[verifier]\ncollect = []\n"
    assert read_harbor_task(write_task(tmp_path / "one", toml)).refused == ()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("trajectory.json", "conversation"),
        ("environment/docker-compose.yaml", "compose"),
        ("environment/.dockerignore", "not obeyed"),
        ("tests/Dockerfile", "verifier"),
        ("tests/.harborignore", "not obeyed"),
    ],
)
def test_a_file_that_would_change_what_happens_is_refused(name: str, problem: str, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "one")
    (folder / name).write_text("{}")
    [refusal] = read_harbor_task(folder).refused
    assert refusal.where == f"{folder}/{name}"
    assert problem in refusal.problem


@pytest.mark.parametrize(
    ("dockerfile", "where", "problem"),
    [
        ('FROM x\nWORKDIR /app\nENTRYPOINT ["serve"]\n', "environment/Dockerfile: ENTRYPOINT", "serve"),
        ("FROM x\nWORKDIR /app\nHEALTHCHECK CMD true\n", "environment/Dockerfile: HEALTHCHECK", "awaited"),
        (
            "FROM x\nWORKDIR /app\nRUN --mount=type=cache,target=/c true\n",
            "environment/Dockerfile",
            "BuildKit",
        ),
        ("FROM x\nWORKDIR /app\nRUN <<EOF\ntrue\nEOF\n", "environment/Dockerfile", "BuildKit"),
        ("FROM x\nRUN true\n", "task.toml: environment.workdir", "no WORKDIR"),
        (None, "environment/Dockerfile", "is missing"),
    ],
)
def test_a_dockerfile_that_means_something_else_here_is_refused(
    dockerfile: str | None, where: str, problem: str, tmp_path: Path
) -> None:
    toml = TOML if dockerfile else f"{TOML}workdir = '/app'\n"
    folder = write_task(tmp_path / "one", toml, dockerfile=dockerfile)
    [refusal] = read_harbor_task(folder).refused
    assert refusal.where == f"{folder}/{where}"
    assert problem in refusal.problem


@pytest.mark.parametrize(
    "name",
    ["task.toml", "instruction.md", "environment", "environment/Dockerfile", "environment/deep", "solution"],
)
def test_no_link_of_a_task_carries_a_file_of_this_machine_into_its_container(
    name: str, tmp_path: Path
) -> None:
    folder = write_task(tmp_path / "set" / "one")
    (folder / name).rename(tmp_path / "secret") if (folder / name).exists() else None
    (folder / name).symlink_to(tmp_path / "secret")
    task = read_harbor_task(folder)
    assert [str(each) for each in task.refused] == [f"{folder}/{name}: leads out of the task's folder"]
    assert task.row == {"id": "one"}


def test_a_link_within_a_task_is_followed_and_one_to_itself_is_told(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "one")
    (folder / "instruction.md").rename(folder / "words.md")
    (folder / "instruction.md").symlink_to("words.md")
    assert read_harbor_task(folder).row["prompt"] == "Write 42 into answer.txt.\n"
    (folder / "instruction.md").unlink()
    (folder / "instruction.md").symlink_to("instruction.md")
    [refusal] = read_harbor_task(folder).refused
    assert str(refusal) == f"{folder}/instruction.md: can't be read: Too many levels of symbolic links"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["task.toml", "instruction.md"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "one")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    [refusal] = read_harbor_task(folder).refused
    assert refusal.where == f"{folder}/{name}"
    assert "no plain file" in refusal.problem


def test_a_text_without_end_is_refused(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "one")
    with (folder / "instruction.md").open("wb") as file:
        file.truncate(MOST + 1)
    [refusal] = read_harbor_task(folder).refused
    assert str(refusal) == f"{folder}/instruction.md: can't be read: it is larger than 16 MiB"


def test_a_task_without_tests_and_one_with_a_link_to_elsewhere_are_refused(tmp_path: Path) -> None:
    bare = write_task(tmp_path / "bare", test=None)
    assert [each.where for each in read_harbor_task(bare).refused] == [f"{bare}/tests/test.sh"]
    linked = write_task(tmp_path / "linked")
    (linked / "tests" / "answers").symlink_to("/etc")
    assert [each.where for each in read_harbor_task(linked).refused] == [f"{linked}/tests/answers"]
