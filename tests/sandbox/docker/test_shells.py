"""`lab shell` in real containers: limits, user and network of the trial, a terminal, and nothing left."""

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from labrunner.files.scraps import SHELL
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.labels import PROBE
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.paths import AGENTLAB
from tests.kit.cli.calling import lab
from tests.kit.cli.typist import at_terminal, is_running
from tests.kit.waiting import wait_for

FILE = """
name: shells
tasks:
  - {id: one, input: x, target: right, files: {note.txt: "hello\\n"}}
setup: {command: "echo prepared > ready.txt; echo system > /etc/prepared"}
on_system_change: flag
agent: {command: "echo wrong > answer.txt", user: app, env: {MINE: yes-mine}}
grader:
  command: 'echo "{\\"verdict\\": \\"fail\\"}" > $$AGENTLAB_BENCHMARK_SCORE_PATH'
  dir: grader
sandbox: {image: "IMAGE", memory_mb: 96, pids: 77}
min_free_disk_gb: 0
"""


@pytest.fixture
def folder(tmp_path: Path, ash: str) -> Path:
    place = tmp_path / "e"
    (place / "grader").mkdir(parents=True)
    (place / "grader" / "hidden.txt").write_text("hidden\n")
    (place / "experiment.yaml").write_text(FILE.replace("IMAGE", ash))
    return place


async def find_containers(maker: DockerMaker, folder: Path) -> list[str]:
    """Containers over something in a folder."""
    found = []
    for each in await maker.engine.list(PROBE):
        with suppress(EngineRefused):  # another test's, gone meanwhile
            state = await maker.engine.look(each.id)
            if str(state.mounts.get(AGENTLAB, "")).startswith(str(folder)):
                found.append(each.id)
    return found


async def test_a_task_is_seen_as_its_agent_finds_it(folder: Path, maker: DockerMaker) -> None:
    look = "id -un; pwd; cat note.txt ready.txt /etc/prepared; echo $MINE; ls /agentlab/grader"
    look += "; ls /sys/class/net"
    more = "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null"
    seen = lab("shell", "experiment.yaml", "one", "--", "sh", "-c", f"{look}; {more}; exit 9", cwd=folder)
    assert seen.code == 9, seen.err
    assert seen.out.splitlines() == [
        "app", "/agentlab/workspace", "hello", "prepared", "system", "yes-mine", "lo", "80",
    ]  # fmt: skip
    assert not list(folder.rglob(f"{SHELL}*"))
    assert await find_containers(maker, folder) == []


async def test_a_trial_is_seen_as_its_grader_found_it(folder: Path, maker: DockerMaker) -> None:
    assert lab("run", cwd=folder).code == 0
    look = (
        "id -u; cat answer.txt ready.txt /agentlab/grader/hidden.txt /agentlab/grader/target.json; echo $MINE"
    )
    seen = lab("shell", "last", "one", "--", "sh", "-c", f"{look}; rm *; echo $PYTHONPATH", cwd=folder)
    assert seen.code == 0, seen.err
    assert seen.out.splitlines() == ["0", "wrong", "prepared", "hidden", '"right"', "", ""]
    assert lab("verify", "last", cwd=folder).code == 0
    again = lab(
        "shell",
        "last",
        "one",
        "--as",
        "agent",
        "--",
        "sh",
        "-c",
        "id -un; cat answer.txt; ls /agentlab/grader",
        cwd=folder,
    )
    assert again.out == "app\nwrong\n"
    assert not list(folder.rglob(f"{SHELL}*"))
    assert await find_containers(maker, folder) == []


async def test_a_terminal_in_a_container_is_a_real_one(folder: Path, maker: DockerMaker) -> None:
    with at_terminal("shell", "experiment.yaml", "one", cwd=folder) as typist:
        typist.see("removes everything")
        typist.type("stty size; tty; id -un\n")
        typist.see("31 97")
        typist.see("/dev/pts/")
        typist.see("app")
        typist.resize(20, 70)
        typist.type("sleep 1; stty size\n")
        typist.see("20 70")
        typist.type("sleep 86413\n")
        wait_for(lambda: is_running("86413"))
        typist.type("\x03")
        typist.type("echo status $?\n")
        typist.see("status 130")
        typist.type("exit 5\n")
        assert typist.end() == 5
    assert not list(folder.rglob(f"{SHELL}*"))
    assert await find_containers(maker, folder) == []


async def test_a_killed_shell_is_found_by_clean(folder: Path, maker: DockerMaker) -> None:
    with at_terminal("shell", "experiment.yaml", "one", cwd=folder) as typist:
        typist.see("removes everything")
        typist.type("sleep 86411\n")
        wait_for(lambda: is_running("86411"))
        typist.kill()
        assert typist.end() == -signal.SIGKILL
    [container] = await find_containers(maker, folder)
    listed = lab("clean", "--list", "--json", cwd=folder).json()
    assert any(container in each["containers"] for each in listed)
    assert lab("clean", "--yes", cwd=folder).code == 0
    assert await find_containers(maker, folder) == []
    assert not list(folder.rglob(f"{SHELL}*"))
    assert not is_running("86411")


async def test_a_shell_that_is_told_to_end_removes_its_container(folder: Path, maker: DockerMaker) -> None:
    with at_terminal("shell", "experiment.yaml", "one", cwd=folder) as typist:
        typist.see("removes everything")
        typist.type("sleep 86412\n")
        wait_for(lambda: is_running("86412"))
        typist.kill(signal.SIGTERM)
        typist.end()
    assert await find_containers(maker, folder) == []
    assert not list(folder.rglob(f"{SHELL}*"))


def test_a_task_without_an_image_is_refused(folder: Path) -> None:
    text = (folder / "experiment.yaml").read_text()
    (folder / "experiment.yaml").write_text(
        text.replace("sandbox: {image:", "sandbox: {kind: docker, workdir:").replace('"lab-', '"/lab-')
    )
    told = lab("shell", "experiment.yaml", "one", "--", "true", cwd=folder)
    assert told.code != 0
    assert "image" in told.err


async def test_work_in_the_images_own_folder_is_there_again(folder: Path, maker: DockerMaker) -> None:
    text = (folder / "experiment.yaml").read_text()
    text = (
        text.replace("sandbox: {", "sandbox: {workdir: /home/app, ")
        .replace("setup:", "#")
        .replace("user: app, ", "")
    )
    (folder / "experiment.yaml").write_text(text)
    assert lab("run", cwd=folder).code == 0
    seen = lab("shell", "last", "one", "--", "sh", "-c", "pwd; cat answer.txt; rm answer.txt", cwd=folder)
    assert (seen.code, seen.out) == (0, "/home/app\nwrong\n"), seen.err
    assert lab("shell", "last", "one", "--", "cat", "/home/app/answer.txt", cwd=folder).out == "wrong\n"
    assert lab("verify", "last", cwd=folder).code == 0
    told = lab("show", "last", "one", cwd=folder).out
    assert "layer.tar.zst:" not in told, "an archive is no log"
    assert await find_containers(maker, folder) == []
