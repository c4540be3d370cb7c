"""What an agent changes in its container's system is found, whoever runs `lab`, and wherever it lies."""

import asyncio
import io
import tarfile
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from labrunner.errors import SandboxFailed
from labrunner.experiment.resolved import Setup
from labrunner.records.completion import Graded
from labrunner.sandbox.docker.attempt.patience import ContainerPatience
from labrunner.sandbox.docker.attempt.systemwatch import SystemWatch
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.docker.watching.contents import differing, take_prints
from tests.kit.docker.testimages import TOOLS_IN_A_VOLUME, Images
from tests.kit.docker.trials import PASS, Trial, shell

HIDE = (
    "import os\nfacts = os.stat('/bin/busybox')\nold = open('/bin/busybox', 'rb').read()\n"
    "open('/bin/new', 'wb').write(old[:-1] + b'!')\nos.chmod('/bin/new', facts.st_mode)\n"
    "os.rename('/bin/new', '/bin/busybox')\n"
    "os.utime('/bin/busybox', ns=(facts.st_atime_ns, facts.st_mtime_ns))\n"
)
"""Replaces a program by one of the same size, rights and time: an engine's own list does not have it."""


@pytest.fixture(params=["root", "plain"])
def trial(request: pytest.FixtureRequest, tmp_path: Path, ash: str, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """A trial of somebody who can look into layers, and of somebody who can't."""
    if request.param == "plain":
        # What a plain user may not see, whoever runs the tests; plain users run them in make torture.
        monkeypatch.setattr("labrunner.sandbox.docker.attempt.systemwatch.can_look_into", lambda _: False)
        monkeypatch.setattr("labrunner.sandbox.docker.attempt.stage.can_look_into", lambda _: False)
        monkeypatch.setattr("labrunner.sandbox.docker.watching.layer.Layer.can_be_read", False)
    return Trial(root=tmp_path / "run", image=ash, grader=shell(PASS), experiment_changes={"trust": "strict"})


async def judge(trial: Trial) -> tuple[str, tuple[str, ...], str]:
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded), completion.end
    return completion.end.verdict, completion.end.flags, str(completion.timing.barrier["changed"])


async def test_an_agent_that_changes_nothing_is_graded(trial: Trial) -> None:
    trial.agent = shell("echo x > a; echo y > /tmp/b; mkdir -p /var/tmp/c")
    assert await judge(trial) == ("pass", (), "")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ("echo evil > /opt/tool", "/opt/tool"),
        ("rm /opt/tool", "/opt/tool"),
        ("echo x > /bin/gzip", "/bin/gzip"),
        ("chmod 777 /home/app", "/home/app"),
        ("rm /bin/ls", "/bin/ls"),
    ],
)
async def test_what_setup_made_can_not_be_changed_unseen(trial: Trial, change: str, path: str) -> None:
    install = "mkdir /opt; echo tool > /opt/tool; rm /bin/gzip"
    trial.task = {"setup": Setup(command=shell(install), timeout_s=5.0)}
    trial.agent = shell(change)
    verdict, flags, changed = await judge(trial)
    assert (verdict, flags) == ("fail", ("not_graded", "system_changed"))
    assert path in changed or changed.startswith(f"{path}/")


async def test_what_setup_makes_is_not_the_agents(trial: Trial) -> None:
    install = "mkdir /opt; echo tool > /opt/tool; rm /bin/gzip; echo x >> /etc/passwd"
    trial.task = {"setup": Setup(command=shell(install), timeout_s=5.0)}
    assert await judge(trial) == ("pass", (), "")


async def test_what_setup_makes_or_somebody_collects_is_not_flagged_and_the_rest_is(trial: Trial) -> None:
    trial.experiment_changes = {"on_system_change": "flag", "collect": ("/logs/agent",)}
    install = "mkdir -p /opt /logs/agent; echo tool > /opt/tool; rm /bin/gzip"
    trial.task = {"setup": Setup(command=shell(install), timeout_s=5.0)}
    trial.agent = shell("echo said > /logs/agent/log")
    assert await judge(trial) == ("pass", (), "")
    trial.root, trial.agent = trial.root.with_name("again"), shell("echo evil > /logs/other; rm /bin/ls")
    assert await judge(trial) == ("pass", ("system_changed",), "/bin/ls\n/logs/other")


async def test_looking_at_what_setup_made_takes_none_of_its_time(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def note_slowly(watch: SystemWatch, *, after_setup: bool) -> None:
        await asyncio.sleep(2.5)
        await note(watch, after_setup=after_setup)

    note = SystemWatch.note
    monkeypatch.setattr(SystemWatch, "note", note_slowly)  # only its pace: of a large image, a busy engine
    trial.maker = DockerMaker(patience=ContainerPatience(grace_s=0.5))
    trial.task = {"setup": Setup(command=shell("mkdir /opt"), timeout_s=1.0)}
    assert await judge(trial) == ("pass", (), "")


async def test_a_program_of_the_same_size_and_time_is_another(trial: Trial) -> None:
    trial.agent = ("python3", "-IBc", HIDE)
    verdict, flags, changed = await judge(trial)
    assert (verdict, flags, changed) == ("fail", ("not_graded", "system_changed"), "/bin/busybox")


@pytest.mark.parametrize("policy", ["afresh", "flag"])
async def test_a_program_of_the_same_size_and_time_is_flagged_by_default(trial: Trial, policy: str) -> None:
    trial.experiment_changes = {"on_system_change": policy}
    trial.agent = ("python3", "-IBc", HIDE)
    assert await judge(trial) == ("pass", ("system_changed",), "/bin/busybox")


async def test_files_where_they_are_no_matter_are_not_flagged(trial: Trial) -> None:
    trial.experiment_changes = {}
    trial.agent = shell("echo x > /tmp/x; mkdir -p /var/tmp/y; echo y > /var/tmp/y/z")
    assert await judge(trial) == ("pass", (), "")


@pytest.mark.parametrize("sandbox", [{}, {"read_only": True}], ids=["writable", "read-only"])
async def test_a_tool_in_a_volume_is_a_part_of_the_system(
    trial: Trial, images: Images, sandbox: dict[str, bool]
) -> None:
    trial.image, trial.sandbox = await images(TOOLS_IN_A_VOLUME), dict(sandbox)
    trial.agent = shell("cat /tools/judge; echo evil > /tools/judge")
    assert await judge(trial) == ("fail", ("not_graded", "system_changed"), "/tools/judge")
    assert trial.log("agent.stdout") == "honest\n"


async def test_a_volume_that_nobody_touched_is_none(trial: Trial, images: Images) -> None:
    trial.image = await images(TOOLS_IN_A_VOLUME)
    trial.agent = shell("cat /tools/judge")
    assert await judge(trial) == ("pass", (), "")


async def test_a_changed_volume_is_flagged_by_default(trial: Trial, images: Images) -> None:
    trial.image, trial.experiment_changes = await images(TOOLS_IN_A_VOLUME), {}
    trial.agent = shell("echo new > /tools/new")
    assert await judge(trial) == ("pass", ("system_changed",), "/tools/new")


def packed(**files: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"usr/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


async def pieces(data: bytes) -> AsyncGenerator[bytes, None]:
    for at in range(0, len(data), 100):
        yield data[at : at + 100]


async def test_prints_tell_what_differs() -> None:
    before = await take_prints(pieces(packed(a="1", b="2", c="3")), "/usr", lambda _: True)
    now = await take_prints(pieces(packed(b="2", c="4", d="5")), "/usr", lambda _: True)
    assert differing(before, now) == ("/usr/a", "/usr/c", "/usr/d")
    assert await take_prints(pieces(packed(a="1")), "/usr", lambda path: path != "/usr/a") == {}


async def test_more_archives_than_threads_are_printed_at_once() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    data = packed(a="1" * 10_000)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        taken = [group.create_task(take_prints(pieces(data), "/usr", lambda _: True)) for _ in range(6)]
    assert [list(task.result()) for task in taken] == [["/usr/a"]] * 6


async def test_an_archive_that_is_cut_off_is_a_failure_of_the_sandbox() -> None:
    with pytest.raises(SandboxFailed, match="reading what lies in /usr"):
        await take_prints(pieces(packed(a="1" * 5000)[:3000]), "/usr", lambda _: True)
