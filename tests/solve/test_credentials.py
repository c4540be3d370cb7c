"""A password in the address of a model's provider: used, and in no file of the run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from labrunner.experiment.addresses import find_password, hide_credentials
from tests.kit.cli.calling import Answer, lab
from tests.kit.solve.authoring import write_task
from tests.kit.solve.chatserver import ChatServer, Say, last_user, serving

PASSWORD = "correct-horse-battery"
LETTERS = """
@task
def letters():
    return Task(dataset=[Sample(input=c, target=c) for c in "abcd"], solver=generate(), scorer=includes())
"""


@pytest.fixture
def echoing() -> Iterator[ChatServer]:
    with serving(lambda asked: Say(text=f"{last_user(asked)}, {PASSWORD}")) as server:
        yield server


def call(folder: Path, *words: str | Path, **env: str) -> Answer:
    return lab(*words, cwd=folder, env={"OPENAI_API_KEY": "a-key-for-tests", **env})


def private(server: ChatServer) -> str:
    return server.url.replace("//", f"//me:{PASSWORD}@")


def files_with(word: str, folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def test_a_password_in_an_address_is_used_and_never_recorded(tmp_path: Path, echoing: ChatServer) -> None:
    file = write_task(tmp_path, LETTERS)
    words = ("run", file, "--model", "openai/m", "--model-base-url", private(echoing), "--run-id", "x")

    ran = call(tmp_path, *words)

    assert ran.code == 0, ran.err
    assert len(echoing.requests) == 4
    assert files_with(PASSWORD, tmp_path / ".lab") == []
    assert files_with("//***@127.0.0.1", tmp_path / ".lab") == ["run.json"]


def test_a_run_goes_on_when_the_address_is_given_again(tmp_path: Path, echoing: ChatServer) -> None:
    file = write_task(tmp_path, LETTERS)
    words = ("run", file, "--model", "openai/m", "--model-base-url", private(echoing), "--run-id", "x")
    assert call(tmp_path, *words, LAB_DIE_AT="commit.rows_synced:1").code != 0

    without = call(tmp_path, "continue", "x")
    another = call(tmp_path, "continue", "x", LAB_MODEL_BASE_URL="http://me:other@127.0.0.1:1/v1")
    again = call(tmp_path, "continue", "x", LAB_MODEL_BASE_URL=private(echoing))
    retried = call(tmp_path, "retry", "x", "--model-base-url", private(echoing), "--run-id", "y")
    of_provider = call(tmp_path, "retry", "x", "--run-id", "z", OPENAI_BASE_URL=private(echoing))

    for refused in (without, another):
        assert refused.code == 2
        assert "was given with a password, which is not recorded; set LAB_MODEL_BASE_URL" in refused.err
    for done in (again, retried, of_provider):
        assert done.code == 0, done.err
    assert files_with(PASSWORD, tmp_path / ".lab") == []


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("https://me:secret@host/v1", "https://***@host/v1"),
        ("--model-base-url=https://token@host", "--model-base-url=https://***@host"),
        ("https://me:p@ss@host/v1", "https://***@host/v1"),
        ("https://host/v1?mail=me@host", "https://host/v1?mail=me@host"),
        ("https://host:8000/v1", "https://host:8000/v1"),
        ("me@host", "me@host"),
    ],
)
def test_credentials_are_hidden_in_addresses_alone(text: str, hidden: str) -> None:
    assert hide_credentials(text) == hidden


def test_a_password_is_known_as_it_is_sent() -> None:
    assert find_password("https://me:a%20b@host") == "a b"
    assert find_password("https://host") is None
    assert find_password("https://[half") is None
