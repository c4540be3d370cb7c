"""Agents that would rather have failed for another's reason: whatever they forge, they are judged."""

import subprocess
from pathlib import Path

import pytest

from labrunner.experiment.resolved import Setup
from labrunner.files.strangers.removal import remove_tree
from labrunner.records.completion import Completion, Graded
from labrunner.sandbox.docker.attempt.patience import ContainerPatience
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.docker.wrapper.testimony import has_agent_begun
from tests.kit.docker.killwrapper import KILL_WRAPPER
from tests.kit.docker.site import Site
from tests.kit.docker.testimages import VOLUME, Images
from tests.kit.docker.trials import Trial, python, shell
from tests.kit.sandbox.place import sh

FORGE = "printf 'phase=setup\\nat=1\\n' > /agentlab/ctl/phase"
FILL = "for i in 1 2 3 4 5 6 7 8 9; do head -c 3000000 /dev/zero > /root/f$i; done"
EXIT_AS_TOLD = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
ATTACH, GETREGS, SETREGS, POKE, DETACH = 16, 12, 13, 4, 17
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
assert libc.ptrace(ATTACH, 1, None, None) == 0, ctypes.get_errno()
os.waitpid(1, 0x40000000)
regs = (ctypes.c_ulonglong * 27)()
libc.ptrace(GETREGS, 1, None, ctypes.byref(regs))
regs[10], regs[14], regs[15] = 231, CODE, -1 & (2**64 - 1)
libc.ptrace(POKE, 1, regs[16], 0x050F)
libc.ptrace(SETREGS, 1, None, ctypes.byref(regs))
libc.ptrace(DETACH, 1, None, None)
import time
time.sleep(5)
"""
"""Makes the wrapper end with a code of the agent's choice."""
TOO_LONG = """
import os
os.chdir('FOLDER')
for _ in range(20):
    os.mkdir('x' * 250)
    os.chdir('x' * 250)
"""
"""Makes a path that is longer than any call takes."""


@pytest.fixture
def trial(tmp_path: Path, ash: str) -> Trial:
    return Trial(root=tmp_path / "run", image=ash)


def ended_by(completion: Completion) -> str | None:
    assert isinstance(completion.end, Graded), completion.end
    assert completion.end.verdict == "fail"
    return completion.end.ended_by


def flags(completion: Completion) -> tuple[str, ...]:
    assert isinstance(completion.end, Graded), completion.end
    return completion.end.flags


@pytest.mark.parametrize("note", ["os.unlink('/agentlab/ctl/phase')", f'os.system("""{FORGE}""")'])
async def test_killing_the_wrapper_behind_a_forged_note_is_no_second_try(trial: Trial, note: str) -> None:
    trial.agent = python(f"import os\n{note}\n{KILL_WRAPPER}")
    assert ended_by(await trial.carry_out()) == "wrapper_killed"


@pytest.mark.parametrize("code", [0, 80, 85, 86])
async def test_a_wrapper_made_to_end_with_a_code_of_its_own_is_killed(trial: Trial, code: int) -> None:
    trial.agent = python(EXIT_AS_TOLD.replace("CODE", str(code)))
    completion = await trial.carry_out()
    assert ended_by(completion) == "wrapper_killed"


async def test_a_full_disk_can_not_be_blamed_on_setup(trial: Trial) -> None:
    trial.sandbox = {"disk_mb": 20}
    fill = "i=0; while :; do head -c 3000000 /dev/zero > f$i; i=$((i+1)); sleep 0.02; done"
    trial.agent = shell(f"{FORGE}; {fill}")
    assert ended_by(await trial.carry_out()) == "disk"


async def test_a_used_up_time_can_not_be_blamed_on_setup(trial: Trial) -> None:
    trial.maker = DockerMaker(patience=ContainerPatience(grace_s=1.0))
    trial.agent = shell(f"{FORGE}; killall sleep; while :; do :; done")
    trial.agent_changes["timeout_s"] = 1
    assert ended_by(await trial.carry_out()) == "timeout"


async def test_an_agent_that_removed_its_note_has_begun_for_all_that(site: Site) -> None:
    spec = site.spec()
    async with site.maker.open(spec) as sandbox:
        await sandbox.run_agent(None, sh("rm /agentlab/ctl/phase"))
        (spec.folders.root / "barrier.json").unlink()
        for note in spec.folders.ctl.iterdir():
            note.unlink()
        (survivor,) = await site.maker.survivors(site.run)
    assert survivor.phase == "died"


@pytest.mark.parametrize(
    ("said", "begun"),
    [
        (b"", False),
        (b"setup\ngate\n", False),
        (b"setup\ngate\nagent\n", True),
        (b"agent\nbarrier\n", True),
        (b"setup\nfailed\n", False),
        (b"setup\nsetup\nsetup\n", True),
        (b"a flood that washed the first lines away\n", True),
    ],
)
def test_what_was_said_tells_whether_an_agent_has_begun(said: bytes, begun: bool) -> None:
    assert has_agent_begun(said) == begun


@pytest.mark.parametrize(("user", "folder"), [(None, "/root"), ("app", "/home/app")], ids=["root", "app"])
async def test_paths_too_long_for_calls_are_flagged_and_judged(
    trial: Trial, user: str | None, folder: str
) -> None:
    trial.task = {"setup": Setup(command=shell("chmod 777 /home/app"), timeout_s=5.0)}
    trial.agent = python(TOO_LONG.replace("FOLDER", folder))
    trial.agent_changes["user"] = user
    completion = await trial.carry_out()
    assert ended_by(completion) is None
    assert flags(completion) == ("system_changed",)
    assert f"{folder}/{'x' * 250}/" in str(completion.timing.barrier["changed"])


async def test_paths_too_long_for_calls_are_no_matter_in_scratch(trial: Trial) -> None:
    trial.agent = python(TOO_LONG.replace("FOLDER", "/tmp"))
    trial.agent_changes["user"] = "app"  # root's Python would write its bytecode into the system
    completion = await trial.carry_out()
    assert completion.agent is not None
    assert completion.agent.exit_status == 0
    assert ended_by(completion) is None
    assert flags(completion) == ()


@pytest.mark.parametrize("user", [None, "app"], ids=["root", "app"])
async def test_paths_too_long_for_an_engine_to_list_are_flagged_and_judged(
    trial: Trial, user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a plain user may not see, whoever runs the tests.
    monkeypatch.setattr("labrunner.sandbox.docker.watching.layer.Layer.can_be_read", False)
    trial.agent = python(TOO_LONG.replace("FOLDER", "/tmp"))
    trial.agent_changes["user"] = user
    completion = await trial.carry_out()
    assert ended_by(completion) is None
    assert flags(completion) == ("system_changed",)
    assert str(completion.timing.barrier["changed"]).startswith("(more than the engine could list: ")


@pytest.mark.parametrize(
    ("then", "end"),
    [("pass", None), ("open('f', 'wb').write(bytes(30_000_000)); time.sleep(15)", "disk")],
    ids=["empty", "full"],
)
async def test_a_tree_deeper_than_calls_can_go_is_counted_to_its_end_and_ours_again(
    trial: Trial, then: str, end: str | None
) -> None:
    trial.sandbox = {"disk_mb": 20}
    trial.agent = python(
        f"import os, time\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\n{then}"
    )
    trial.agent_changes["user"] = "app"
    completion = await trial.carry_out()
    deepest = subprocess.run(
        ["find", str(trial.folders.workspace), "-user", "1234"], capture_output=True, check=False
    )
    remove_tree(trial.folders.workspace)  # whoever clears up after tests can't
    assert ended_by(completion) == end
    assert deepest.stdout == b""


async def test_an_engine_is_asked_for_what_this_user_may_not_see(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a plain user may not see, whoever runs the tests.
    monkeypatch.setattr("labrunner.sandbox.docker.attempt.stage.can_look_into", lambda _: False)
    trial.maker = DockerMaker(patience=ContainerPatience(layer_pause_s=0.2))
    trial.sandbox = {"disk_mb": 20}
    trial.agent = shell(f"{FILL}; sleep 100")
    assert ended_by(await trial.carry_out()) == "disk"


async def test_what_an_engine_counts_at_the_end_is_not_overlooked(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a plain user may not see, whoever runs the tests.
    monkeypatch.setattr("labrunner.sandbox.docker.attempt.stage.can_look_into", lambda _: False)
    trial.sandbox = {"disk_mb": 20}
    trial.agent = shell(FILL)
    assert ended_by(await trial.carry_out()) == "disk"


@pytest.mark.root
async def test_a_volume_of_the_image_is_no_way_around_the_disk_limit(trial: Trial, images: Images) -> None:
    trial.image = await images(VOLUME)
    trial.sandbox = {"disk_mb": 20}
    fill = "i=0; while :; do head -c 3000000 /dev/zero > /data/f$i; i=$((i+1)); sleep 0.02; done"
    trial.agent = shell(fill)
    trial.agent_changes["timeout_s"] = 8
    assert ended_by(await trial.carry_out()) == "disk"


async def test_nobody_else_comes_by_what_root_left(trial: Trial) -> None:
    trial.agent = shell("cp /bin/busybox evil; chmod 6755 evil")
    await trial.carry_out()
    assert trial.folders.root.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("folder", ["/agentlab/logs", "report", "/home/app/deep"])
async def test_names_that_are_no_text_can_be_recorded(trial: Trial, folder: str) -> None:
    trial.experiment_changes = {"collect": ("report", "/home/app/deep")}
    trial.agent = python(
        f"import os\nos.makedirs('{folder}', exist_ok=True)\n"
        f"open(b'{folder}/\\xff\\n\\x1b[31m', 'wb').write(b'x')"
    )
    completion = await trial.carry_out()
    assert ended_by(completion) is None
    for ref in (*completion.files, *completion.timing.logs):
        ref.path.encode()


async def test_many_files_among_the_logs_are_thrown_away(trial: Trial) -> None:
    trial.agent = shell("echo said; i=0; while [ $i -lt 500 ]; do echo > /agentlab/logs/$i; i=$((i+1)); done")
    completion = await trial.carry_out()
    assert [ref.path for ref in completion.timing.logs] == ["logs/agent.stdout"]


async def test_what_is_too_large_to_collect_is_left_out_and_its_attempt_judged(trial: Trial) -> None:
    trial.experiment_changes = {"collect": ("/home/app/deep",)}
    trial.agent = python(
        "import os\nos.makedirs('/home/app/deep')\n"
        "for name, size in (('a', 100 << 20), ('b', 40 << 20), ('c', 40 << 20), ('0', 3)):\n"
        "    open('/home/app/deep/' + name, 'wb').truncate(size)"
    )
    completion = await trial.carry_out()
    assert ended_by(completion) is None
    kept = [ref.path for ref in completion.files if ref.path.startswith("artifacts/")]
    assert kept == ["artifacts/home/app/deep/0"]
