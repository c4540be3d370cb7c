"""What of this machine goes to others with a Python task, and what does not."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.executor.cargo import Cargo, Delivered
from labrunner.experiment.options.overrides import Overrides
from labrunner.sandbox import registry
from labrunner.solve.resolving.loading import load_tasks
from labrunner.solve.resolving.task_resolution import Resolved, resolve_task
from labrunner.solve.running.disclosure import choose_secrets
from labrunner.solve.running.faraway import make_faraway
from labrunner.solve.running.packing import pack_task
from labrunner.solve.running.recipe import CARRIED, decode_recipe
from labrunner.trial.assignment import TrialContext
from tests.kit.builders import make_agent, make_experiment, make_variant
from tests.kit.solve.authoring import write_task

PLAIN = """
@task
def plain():
    return Task(dataset=[Sample(input="x")], solver=generate(), scorer=includes())
"""
READING = """
from pathlib import Path

@task
def reading():
    text = [Path(name).read_bytes() for name in ({names})]
    return Task(dataset=[Sample(input="x")], solver=generate(), scorer=includes())
"""
NO_SECRETS: Mapping[str, str] = {}
ASKED = Overrides(model="mock/echo")


def resolve(file: Path) -> Resolved:
    (task,) = load_tasks(str(file))
    return resolve_task(task, ASKED)


async def pack(file: Path, hidden: Mapping[str, str] = NO_SECRETS) -> Cargo:
    made = resolve(file)
    program = made.experiment.variants[0].program
    assert program is not None
    return await pack_task(program, made.live, ASKED, None, hidden)


async def test_variables_that_clients_read_travel_as_secrets_with_the_values_that_this_process_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = {"OPENAI_API_KEY": "sk-12345678", "AWS_REGION": "eu-1", "AZURE_OPENAI_ENDPOINT": "https://a"}
    for name, value in sent.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATABASE_PASSWORD", "nobody-asks-for-it")
    cargo = await pack(write_task(tmp_path, PLAIN))
    assert {f"{CARRIED}{name}": value for name, value in sent.items()}.items() <= cargo.secrets.items()
    assert set(sent) <= set(decode_recipe(cargo.words).environment)
    assert "nobody-asks-for-it" not in cargo.secrets.values()
    assert b"sk-12345678" not in cargo.words


@pytest.mark.parametrize(
    "name",
    [
        "AWS_CA_BUNDLE",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_PROFILE",
        "AWS_DATA_PATH",
        "AZURE_CONFIG_DIR",
        "AZURE_FEDERATED_TOKEN_FILE",
        "SNOWFLAKE_HOME",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "IDENTITY_ENDPOINT",
    ],
)
async def test_what_says_where_something_lies_on_this_machine_is_left_to_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/of/this/machine")
    cargo = await pack(write_task(tmp_path, PLAIN))
    assert name not in decode_recipe(cargo.words).environment
    assert f"{CARRIED}{name}" not in cargo.secrets


async def test_a_secret_of_the_run_does_not_take_the_place_of_a_variable_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-clients")
    file = write_task(tmp_path, PLAIN)
    cargo = await pack(file)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-node")
    context = TrialContext(
        experiment=resolve(file).experiment,
        run_id="r",
        trials_dir=tmp_path,
        host="h",
        secrets={"OPENAI_API_KEY": "sk-of-agents", **cargo.secrets},
    )
    make_faraway(context, registry.make, Delivered(words=cargo.words, folder=tmp_path))
    assert os.environ["OPENAI_API_KEY"] == "sk-of-clients"


async def test_files_that_set_variables_stay_here(tmp_path: Path) -> None:
    names = [".env", ".env.local", ".envrc", "conf/.env", "settings", "prompt.txt"]
    (tmp_path / "conf").mkdir()
    for name in names:
        if name != "settings":
            (tmp_path / name).write_text("TOKEN=nobody-knows-it")
    (tmp_path / "settings").symlink_to(".env")
    read = "".join(f"{name!r}, " for name in names)
    cargo = await pack(write_task(tmp_path, READING.format(names=read)))
    assert set(cargo.files) == {"project/task.py", "project/prompt.txt"}


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (b"key = 'of-a-provider-77'", 0),
        (b"b2YtYS1wcm92aWRlci03Nw==", 0),
        (b"of-a-provider-77", (1 << 20) - 5),  # across two reads
    ],
)
async def test_a_file_that_holds_a_secret_is_refused_by_name(tmp_path: Path, text: bytes, at: int) -> None:
    (tmp_path / "data.bin").write_bytes(b"." * at + text)
    file = write_task(tmp_path, READING.format(names='"data.bin",'))
    with pytest.raises(InputError, match=r"data\.bin: holds the value of TOKEN, and would lie on the nodes"):
        await pack(file, {"OTHER": "of-nobody-here", "TOKEN": "of-a-provider-77"})
    assert "project/data.bin" in (await pack(file, {"OTHER": "of-nobody-here"})).files


async def test_code_that_holds_a_secret_is_refused_by_name(tmp_path: Path) -> None:
    file = write_task(tmp_path, f"KEY = 'of-a-provider-77'\n{PLAIN}")
    with pytest.raises(InputError, match=r"task\.py: holds the value of TOKEN"):
        await pack(file, {"TOKEN": "of-a-provider-77"})


def test_secrets_are_what_is_declared_and_what_is_called_so() -> None:
    known = {
        "OPENAI_API_KEY": "1",
        "token": "2",
        "DB_PASSWORD": "3",
        "DECLARED": "4",
        "PATH": "5",
        "KEYBOARD": "6",
        "MONKEY": "7",
    }
    experiment = make_experiment(variants=(make_variant(agent=make_agent(secrets=("DECLARED",))),))
    assert set(choose_secrets(experiment, known)) == {"OPENAI_API_KEY", "token", "DB_PASSWORD", "DECLARED"}
