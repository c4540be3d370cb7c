"""Compose files of one service: what they come to, and what is refused by file and field."""

from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.experiment.options.overrides import Overrides
from labrunner.solve.resolving.compose import read_compose
from labrunner.solve.resolving.sandboxes import find_surroundings
from labrunner.solve.resolving.task_resolution import resolve_task
from labrunner.solve.values.sample import Sample
from tests.kit.solve.authoring import make_task

WHOLE = """
version: "3"
x-note: anything
services:
  default:
    image: my/image:1
    x-local: true
    x-default: true
    init: true
    command: tail -f /dev/null
    working_dir: /work
    environment: {WORD: "a $$b", ON: true, N: 3}
    user: "1000"
    mem_limit: 0.5gb
    cpus: 1.5
    network_mode: none
    tty: true
"""


def write(folder: Path, text: str, name: str = "compose.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def service(folder: Path, fields: str, image: str = "image: i\n") -> Path:
    lines = "".join(f"    {line}\n" for line in (image + fields).splitlines())
    return write(folder, f"services:\n  box:\n{lines}")


def test_one_service_becomes_the_sandbox_that_it_describes(tmp_path: Path) -> None:
    write(tmp_path, WHOLE)
    found = find_surroundings(None, "docker", tmp_path)
    assert found.sandbox == {
        "kind": "docker",
        "image": "my/image:1",
        "pull": "never",
        "workdir": "/work",
        "memory_mb": 512,
        "cpus": 1.5,
    }
    assert found.agent == {"user": "1000", "network": "none"}
    assert found.env == {"WORD": "a $b", "ON": "true", "N": "3"}
    assert find_surroundings(None, ("docker", "compose.yaml"), tmp_path) == found
    assert find_surroundings("bubblewrap", "docker", tmp_path).sandbox == {"kind": "bubblewrap"}


def test_it_reaches_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, WHOLE)
    task = make_task([Sample(input="x", setup="true")], sandbox="docker", on_system_change="flag")
    experiment = resolve_task(task, Overrides(model="mock/echo")).experiment
    variant, row = experiment.variants[0], experiment.tasks[0]
    assert (variant.sandbox.image, variant.sandbox.memory_mb, variant.sandbox.workdir) == (
        "my/image:1",
        512,
        "/work",
    )
    assert (variant.agent.user, variant.agent.network.mode) == ("1000", "none")
    assert row.env == {"WORD": "a $$b", "ON": "true", "N": "3"}
    assert row.setup is not None
    assert row.setup.network.mode == "none"


def test_a_build_takes_the_place_of_an_image(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    path = service(tmp_path, "build: {context: box, dockerfile: Dockerfile}\nx-local: true")
    assert read_compose(path).sandbox == {"build": str(tmp_path / "box")}
    assert read_compose(service(tmp_path, "build: ./box", image="")).sandbox["build"] == str(tmp_path / "box")


def test_a_file_that_says_nothing_of_networks_means_one(tmp_path: Path) -> None:
    assert read_compose(service(tmp_path, "")).agent == {"network": "full"}
    assert read_compose(service(tmp_path, "network_mode: bridge")).agent == {"network": "full"}


def test_limits_are_read_in_both_ways(tmp_path: Path) -> None:
    fields = "deploy: {resources: {limits: {cpus: '2', memory: 2G, pids: 100}}}"
    found = read_compose(service(tmp_path, fields)).sandbox
    assert (found["cpus"], found["memory_mb"], found["pids"]) == (2.0, 2048, 100)
    assert read_compose(service(tmp_path, "mem_limit: 1073741824")).sandbox["memory_mb"] == 1024


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ("volumes: ['./a:/a']", r"services\.box\.volumes"),
        ("pids_limit: inf", r"services\.box\.pids_limit.*expected a number"),
        ("cpus: nan", r"services\.box\.cpus.*expected a number"),
        ("ports: ['80:80']", r"services\.box\.ports"),
        ("privileged: true", r"services\.box\.privileged"),
        ("networks: [mine]", r"services\.box\.networks"),
        ("network_mode: host", r"services\.box\.network_mode"),
        ("command: python serve.py", r"services\.box\.command.*python serve.py"),
        ("entrypoint: [/start.sh]", r"services\.box\.entrypoint"),
        ("environment: [TOKEN]", r"services\.box\.environment"),
        ("environment: {TOKEN: }", r"services\.box\.environment\.TOKEN"),
        ("environment: {TOKEN: '${TOKEN}'}", r"services\.box\.environment\.TOKEN"),
        ("build: {context: ., target: dev}", r"services\.box\.build\.target"),
        ("build: nowhere", r"services\.box\.build.*nowhere"),
        ("deploy: {replicas: 2}", r"services\.box\.deploy\.replicas"),
        ("deploy: {resources: {reservations: {cpus: '1'}}}", r"deploy\.resources\.reservations"),
        ("mem_limit: lots", r"services\.box\.mem_limit"),
        ("pull_policy: always", r"services\.box\.pull_policy"),
    ],
)
def test_what_one_container_can_not_have_is_refused_by_file_and_field(
    tmp_path: Path, fields: str, named: str
) -> None:
    with pytest.raises(InputError, match=rf"compose\.yaml: .*{named}"):
        read_compose(service(tmp_path, fields))


def test_several_services_are_refused_with_their_names(tmp_path: Path) -> None:
    path = write(tmp_path, "services:\n  a: {image: i}\n  b: {image: j}\n")
    with pytest.raises(InputError, match=r"compose\.yaml: services: has 2 \(a, b\); several containers"):
        read_compose(path)
    with pytest.raises(InputError, match="volumes"):
        read_compose(write(tmp_path, "services:\n  a: {image: i}\nvolumes: {data: {}}\n"))
    with pytest.raises(InputError, match="neither an image nor a build"):
        read_compose(write(tmp_path, "services:\n  a: {init: true}\n"))


def test_a_compose_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no compose file .*other\.yaml"):
        find_surroundings(None, ("docker", "other.yaml"), tmp_path)
