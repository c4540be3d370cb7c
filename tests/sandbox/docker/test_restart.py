"""Agents that share the wrapper's user: whatever they do to it, its next life sees to the grader."""

import json
from pathlib import Path

import pytest

from labrunner.errors import SetupFailed
from labrunner.experiment.resolved import Network
from labrunner.records.completion import Completion, Failed, Graded
from labrunner.sandbox.docker.attempt.container import make_nonce
from labrunner.sandbox.docker.attempt.patience import ContainerPatience
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.docker.watching.users import find_number, is_roots_number, login
from labrunner.sandbox.door import Demands
from tests.kit.builders import make_sandbox
from tests.kit.docker.site import GRADE, Site
from tests.kit.docker.testimages import ROOT_TWICE, Images
from tests.kit.docker.trials import FAIL, PASS, SCORE, Trial, python, shell
from tests.kit.sandbox.place import sh

REWRITE = """
import re
swaps = {
    b'run grader "$grader_s" /dev/null': b\"\"\"echo '{"verdict":"pass"}'>$score\"\"\",
    b'clear_away "$prediction" "$score"': b"note grader=0".ljust(33),
}
memory = open("/proc/1/mem", "r+b", 0)
for line in open("/proc/1/maps"):
    span = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
    if not span:
        continue
    start, end = (int(x, 16) for x in span.groups())
    try:
        memory.seek(start)
        text = memory.read(end - start)
    except (OSError, OverflowError):
        continue
    for old, new in swaps.items():
        assert len(old) == len(new), (len(old), len(new))
        at = text.find(old)
        while at >= 0:
            memory.seek(start + at)
            memory.write(new)
            at = text.find(old, at + 1)
"""
"""Puts another script into the memory of the shell that runs the wrapper."""
READ_NONCE = """
import re
data = open("/proc/1/mem", "rb", 0)
nonce = None
for line in open("/proc/1/maps"):
    span = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
    if span:
        try:
            data.seek(int(span[1], 16))
            found = re.search(rb"nonce=([0-9a-f]{32})", data.read(int(span[2], 16) - int(span[1], 16)))
        except (OSError, OverflowError):
            continue
        nonce = nonce or (found and found[1].decode())
import os, time
"""
"""Finds out by what the wrapper's words are known."""
ANSWERED = "phase={phase}\\nat=1\\nagent=0\\nsetup=1\\nsetup_oom=1\\ntry=1\\ncode=0\\ngrader=0\\n"


@pytest.fixture
def trial(tmp_path: Path, ash: str) -> Trial:
    return Trial(root=tmp_path / "run", image=ash)


def end_of(completion: Completion) -> Graded:
    assert isinstance(completion.end, Graded), completion.end
    return completion.end


@pytest.mark.parametrize(
    "changes",
    [{}, {"on_system_change": "refuse"}, {"on_system_change": "ignore"}],
    ids=["default", "refuse", "ignore"],
)
@pytest.mark.parametrize("sandbox", [{}, {"read_only": True}], ids=["writable", "read-only"])
async def test_a_wrapper_that_was_rewritten_in_memory_gives_no_pass(
    trial: Trial, changes: dict[str, str], sandbox: dict[str, bool]
) -> None:
    trial.agent = ("python3", "-IBc", REWRITE.replace("$", "$$"))  # -B: it changes nothing else
    trial.experiment_changes, trial.sandbox = dict(changes), dict(sandbox)
    completion = await trial.carry_out()
    end = end_of(completion)
    assert (end.verdict, end.ended_by, end.flags) == ("fail", None, ())
    assert completion.agent is not None
    assert completion.agent.exit_status == 0, trial.log("agent.stderr")
    assert completion.barrier == "restarted"


@pytest.mark.parametrize("phase", ["failed", "barrier", "grader", "graded"])
@pytest.mark.parametrize("trust", ["standard", "strict"])
async def test_an_agent_that_knows_the_nonce_gains_nothing_by_it(
    trial: Trial, phase: str, trust: str
) -> None:
    words = ANSWERED.replace("{phase}", phase)
    trial.agent = python(
        f"{READ_NONCE}\nassert nonce, 'no nonce found'\n"
        f"open('/agentlab/ctl/phase-' + nonce, 'w').write('{words}')\n"
        "import hashlib\n"
        "for text in (nonce, '0 ' + nonce, '1 ' + nonce):\n"
        "    later = hashlib.sha256(text.encode()).hexdigest()[:32]\n"
        f"    open('/agentlab/ctl/phase-' + later, 'w').write('{words}')\n"
        "os.system('killall sleep')\n"
        "time.sleep(600)"
    )
    trial.agent_changes["timeout_s"] = 2
    trial.maker = DockerMaker(patience=ContainerPatience(grace_s=1.0))
    trial.experiment_changes = {"trust": trust}
    end = end_of(await trial.carry_out())
    assert (end.verdict, end.ended_by) == ("fail", "timeout"), trial.log("agent.stderr")


async def test_words_that_the_agent_says_in_the_wrappers_name_are_not_heard(trial: Trial) -> None:
    """It would flood away that it was started, say that setup failed, and end the wrapper so."""
    trial.agent = shell(
        "for n in 1 2; do yes setup | head -c 400000 > /proc/1/fd/$n; echo failed > /proc/1/fd/$n; done;"
        " rm -f /agentlab/ctl/*; kill -9 -1; exit 5"
    )
    trial.experiment_changes = {"trust": "strict"}
    end = end_of(await trial.carry_out())
    assert (end.verdict, end.ended_by) == ("fail", None)


BREAK = {
    "no shell": "rm -f /bin/sh /bin/ash",
    "a shell that ends": "rm -f /bin/sh; printf '#!/bin/busybox false\\n' > /bin/sh; chmod 755 /bin/sh",
    "no user of the grader's": "sed -i /app/d /etc/passwd",
    "no python": "rm -f /usr/bin/python3",
    "a python that fails": "printf '#!/bin/busybox ash\\nexit 7\\n' > /usr/bin/python3",
    "a python that says nothing": "printf '#!/bin/busybox ash\\nexit 0\\n' > /usr/bin/python3",
    "a python that is killed": "printf '#!/bin/busybox ash\\nkill -9 $$$$\\n' > /usr/bin/python3",
}


@pytest.mark.parametrize(
    ("policy", "verdict", "flags"),
    [("flag", "fail", ("not_graded", "system_changed")), ("afresh", "pass", ("system_changed",))],
)
@pytest.mark.parametrize("what", BREAK)
async def test_an_agent_that_breaks_the_system_fails_there_and_is_judged_by_the_image_elsewhere(
    trial: Trial, what: str, policy: str, verdict: str, flags: tuple[str, ...]
) -> None:
    trial.agent = shell(f"{BREAK[what]}; exit 0")
    trial.grader = python(f"open('{SCORE}', 'w').write('{{\"verdict\": \"pass\"}}')")
    trial.grader_changes["user"] = "app"
    trial.experiment_changes = {"on_system_change": policy}
    end = end_of(await trial.carry_out())
    assert (end.verdict, end.flags) == (verdict, flags)


async def test_a_graders_command_that_is_not_there_is_the_graders_fault(trial: Trial) -> None:
    trial.grader = ("/no/such/command",)
    completion = await trial.carry_out()
    assert not isinstance(completion.end, Graded)


INSTALL = "printf '#!/bin/sh\\necho made\\n' > /usr/bin/tool; chmod 755 /usr/bin/tool; exit 0"


@pytest.mark.parametrize("policy", ["flag", "afresh"])
@pytest.mark.parametrize(
    "grader",
    ["exit 9", '[ -e tried ] || { touch tried; exit 9; }; echo \'{"verdict": "pass"}\' > ' + SCORE],
    ids=["always", "the first time"],
)
async def test_a_grader_that_fails_by_itself_is_not_blamed_on_who_changed_the_system(
    trial: Trial, grader: str, policy: str
) -> None:
    trial.agent, trial.grader = shell(INSTALL), shell(grader)
    trial.experiment_changes = {"on_system_change": policy}
    end = (await trial.carry_out()).end
    assert isinstance(end, Failed)
    assert (end.cause, end.reason) == ("grade_error", "grader_exit")


async def test_an_honest_agent_with_root_is_graded_in_the_system_that_it_made(trial: Trial) -> None:
    trial.agent = shell(
        "printf '#!/bin/sh\\necho made\\n' > /usr/bin/tool; chmod 755 /usr/bin/tool;"
        " echo kept > /root/kept; echo shm > /dev/shm/x; (sleep 300 &); ln -sf busybox /bin/sh; exit 0"
    )
    trial.grader = shell(f'[ "$(tool)" = made ] && [ -e /root/kept ] && [ ! -e /dev/shm/x ] && {PASS}')
    trial.experiment_changes = {"on_system_change": "flag"}
    completion = await trial.carry_out()
    assert (end_of(completion).verdict, end_of(completion).flags) == ("pass", ("system_changed",))
    assert completion.barrier == "restarted"


@pytest.mark.parametrize("user", [None, "app"])
async def test_who_changed_nothing_is_graded_where_it_worked(trial: Trial, user: str | None) -> None:
    trial.agent = shell("echo x > /tmp/x; echo 1 > answer; exit 0")
    trial.grader = shell(f"[ -e /tmp/x ] && [ -e answer ] && {PASS}")
    trial.agent_changes["user"] = user
    completion = await trial.carry_out()
    assert (end_of(completion).verdict, end_of(completion).flags) == ("pass", ())
    assert completion.barrier == ("restarted" if user is None else "separate_user")


async def test_a_grader_on_the_network_asks_hosts_that_root_did_not_choose(trial: Trial) -> None:
    trial.agent = shell("echo 10.9.8.7 judge.example >> /etc/hosts; exit 0")
    trial.grader_changes["network"] = Network(mode="full", hosts=())
    trial.grader = shell(f"grep judge.example /etc/hosts || {PASS}")
    completion = await trial.carry_out()
    assert (end_of(completion).verdict, completion.barrier) == ("pass", "fresh_container")


async def test_what_is_collected_from_the_system_is_the_agents(trial: Trial) -> None:
    trial.agent = shell("echo agents > /opt.log; echo changed > /etc/group; exit 0")
    trial.grader = shell(f"[ ! -e /opt.log ] && echo graders > /grader.log && {PASS}")
    trial.experiment_changes = {"collect": ("/opt.log", "/grader.log", "/etc/group", "/no/such")}
    completion = await trial.carry_out()
    assert (end_of(completion).verdict, completion.barrier) == ("pass", "fresh_container")
    kept = {path.name: path.read_text() for path in trial.folders.artifacts.rglob("*") if path.is_file()}
    assert kept == {"opt.log": "agents\n", "grader.log": "graders\n", "group": "changed\n"}


@pytest.mark.parametrize("user", ["toor", "00", "0:app", "root", "4294967295", "4294967296"])
async def test_root_is_root_whatever_it_is_called(images: Images, site: Site, user: str) -> None:
    site.image = await images(ROOT_TWICE)
    async with site.maker.open(site.spec(demands=Demands(agent_user=user))) as sandbox:
        assert sandbox.barrier == "restarted"


@pytest.mark.parametrize(
    ("user", "is_root"),
    [("", True), ("0", True), ("00:5", True), ("7", False), ("7:0", False), ("4294967295", True)],
)
def test_numbers_say_whether_they_are_roots(user: str, is_root: bool) -> None:
    assert is_roots_number(login(user)) == is_root


def test_a_name_that_an_image_does_not_know_may_be_roots() -> None:
    passwd = "root:x:0:0::/:/bin/sh\napp:x:7:7::/:/bin/sh\napp:x:0:0::/:/bin/sh\nhalf\n"
    assert find_number("app", passwd) == "7"
    assert is_roots_number(find_number("half", passwd))
    assert is_roots_number(find_number("nobody-here", passwd))


async def test_a_user_that_setup_makes_root_is_refused(images: Images, site: Site) -> None:
    site.image = await images(ROOT_TWICE)
    setup = sh("sed -i s/1234:1234/0:0/ /etc/passwd", name="setup", user="root")
    with pytest.raises(SetupFailed, match="user app has root's number"):
        async with site.maker.open(site.spec(demands=Demands(agent_user="app"))) as sandbox:
            await sandbox.run_agent(setup, sh(":", user="app"))


@pytest.mark.parametrize("agent_user", [None, "app"], ids=["root", "app"])
async def test_a_graders_user_that_is_not_there_is_named_before_an_agent_runs(
    site: Site, agent_user: str | None
) -> None:
    demands = Demands(agent_user=agent_user, grader_user="judge")
    spec = site.spec(demands=demands)
    with pytest.raises(SetupFailed, match="there is no user judge in this image"):
        async with site.maker.open(spec) as sandbox:
            await sandbox.run_agent(None, sh("touch ran", user=agent_user))
    assert not (spec.folders.workspace / "ran").exists()


async def test_a_next_life_that_was_counted_is_not_counted_twice(site: Site) -> None:
    spec = site.spec()
    async with site.maker.open(spec) as sandbox:
        await sandbox.run_agent(None, sh(":"))
        assert json.loads((spec.folders.root / "barrier.json").read_text())["restarts"] == 1
        await sandbox.run_grader(sh(GRADE, name="grader"))
        assert json.loads((spec.folders.root / "barrier.json").read_text())["restarts"] == 1
        (container,) = await site.maker.engine.list(f"labrunner.place={site.run.place}")
    seed = container.labels["labrunner.nonce"]
    assert (spec.folders.ctl / f"phase-{make_nonce(seed, 1)}").exists()


async def test_what_a_plain_agent_leaves_in_memory_is_gone_when_its_grader_comes(trial: Trial) -> None:
    trial.sandbox = {"memory_mb": 64}
    trial.agent_changes["user"] = "app"
    trial.agent = python(
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\n"
        "libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]\n"
        "size = 50 << 20\nid = libc.shmget(7, size, 0o1600)\n"
        "assert id >= 0\nctypes.memset(libc.shmat(id, None, 0), 1, size)"
    )
    trial.grader = python(
        "data = bytearray(40 << 20)\n"
        "assert len(open('/proc/sysvipc/shm').readlines()) == 1\n"
        f"open('{SCORE}', 'w').write('{{\"verdict\": \"fail\"}}')"
    )
    completion = await trial.carry_out()
    assert end_of(completion).verdict == "fail", trial.log("grader.stderr")
    assert completion.barrier == "separate_user"
    assert completion.agent is not None
    assert completion.agent.exit_status == 0, trial.log("agent.stderr")


@pytest.mark.parametrize("user", [None, "app"], ids=["root", "app"])
async def test_devices_that_an_agent_replaced_are_new_for_its_grader(trial: Trial, user: str | None) -> None:
    trial.agent_changes["user"] = user
    trial.agent = shell(
        "rm -f /dev/null /dev/zero /dev/urandom; mkdir /dev/null; echo evil > /dev/zero; exit 3"
    )
    trial.grader = shell(f"echo x > /dev/null && [ -c /dev/zero ] && [ -c /dev/urandom ] && {FAIL}")
    completion = await trial.carry_out()
    assert end_of(completion).verdict == "fail"
    assert completion.agent is not None
    assert completion.agent.exit_status == 3


@pytest.mark.parametrize(
    ("demands", "told"),
    [
        (Demands(), "the agent is root; restarted: every process of the agent was ended"),
        (Demands(agent_user="toor"), "the agent is root; restarted: "),
        (Demands(agent_user="app"), "the agent is not root; separate_user: "),
        (Demands(agent_user="app", restart=True), "the agent is not root; restarted: "),
        (Demands(agent_user="app", any_user=True), "the agent is root; restarted: "),
        (Demands(fresh_grader=True), "the agent is root; fresh_container: "),
        (
            Demands(renews_changed=True),
            "the agent is root; restarted: every process of the agent was ended with its container; the "
            "grader's wrapper is new. Where the agent changed the system, fresh_container: ",
        ),
    ],
)
async def test_preflight_says_which_barrier_will_hold(
    images: Images, site: Site, demands: Demands, told: str
) -> None:
    plan = make_sandbox(kind="docker", image=await images(ROOT_TWICE))
    checks = {check.name: check for check in await site.maker.preflight(plan, demands)}
    assert checks["barrier"].message.startswith(told)
