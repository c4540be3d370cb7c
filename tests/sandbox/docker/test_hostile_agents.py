"""Agents that cheat, each in a real container: none gains a pass, hangs the run, or touches the host."""

import os
import time
from pathlib import Path

import pytest

from labrunner.experiment.resolved import Solution
from labrunner.records.completion import Completion, Failed, Graded
from tests.kit.docker.killwrapper import KILL_WRAPPER
from tests.kit.docker.trials import FAIL, PASS, SCORE, Trial, python, shell

HUNT = """
import os, re
needles = [b"HIDDEN-" + word for word in (b"FILE", b"TARGET", b"COMMAND", b"ENV", b"SECRET")]
found = set()
def search(data, where):
    for needle in needles:
        if needle in data:
            found.add(needle.decode() + " in " + where)
for top in ("/agentlab", "/tmp", "/etc", "/root", "/home", "/run", "/var"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and "agent.std" not in path:
                    search(open(path, "rb").read(1 << 20), path)
            except OSError:
                pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "mountinfo", "cgroup"):
        try:
            data = open(f"/proc/{pid}/{name}", "rb").read()
        except OSError:
            continue
        if pid != str(os.getpid()) or name != "cmdline":
            search(data, f"/proc/{pid}/{name}")
    try:
        memory = open(f"/proc/{pid}/mem", "rb", 0)
        if pid == str(os.getpid()):
            continue
        for line in open(f"/proc/{pid}/maps"):
            span = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if span:
                start, end = (int(x, 16) for x in span.groups())
                try:
                    memory.seek(start)
                    search(memory.read(min(end - start, 1 << 24)), f"memory of {pid}")
                except (OSError, ValueError, OverflowError):
                    pass
    except OSError:
        pass
print("\\n".join(sorted(found)) or "nothing")
"""


@pytest.fixture
def trial(tmp_path: Path, ash: str) -> Trial:
    return Trial(root=tmp_path / "run", image=ash)


def verdict(completion: Completion) -> str:
    assert isinstance(completion.end, Graded), completion.end
    return completion.end.verdict


async def test_a_planted_score_does_nothing(trial: Trial) -> None:
    trial.agent = shell(PASS)
    trial.grader = shell(":")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Failed)
    assert completion.end.reason == "score_missing"


async def test_a_daemon_that_rewrites_the_score_is_gone(trial: Trial) -> None:
    trial.agent = python(
        "import os, time\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork():\n"
        "            os._exit(0)\n"
        "        while True:\n"
        f"            open('{SCORE}', 'w').write('{{\"verdict\": \"pass\"}}')\n"
        "            time.sleep(0.01)\n"
    )
    trial.grader = shell(f"{FAIL}; sleep 0.5")
    assert verdict(await trial.carry_out()) == "fail"


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "link_to_host"])
async def test_whatever_lies_where_the_score_belongs_is_cleared(trial: Trial, kind: str) -> None:
    outside = trial.root / "outside"
    trial.root.mkdir(parents=True)
    outside.write_text("untouched")
    plant = {
        "symlink": f"ln -s /agentlab/workspace/mine {SCORE}",
        "fifo": f"mkfifo {SCORE}",
        "folder": f"mkdir -p {SCORE}/deep",
        "link_to_host": f"ln -s {outside} {SCORE}",
    }
    trial.agent = shell(plant[kind])
    assert verdict(await trial.carry_out()) == "fail"
    assert outside.read_text() == "untouched"


@pytest.mark.parametrize("name", ["logs/grader.stdout", "logs/evil", "state/events.jsonl", "out/result.json"])
@pytest.mark.parametrize("kind", ["link", "fifo"])
async def test_links_and_fifos_in_its_folders_reach_nothing_of_the_host(
    trial: Trial, name: str, kind: str
) -> None:
    host = trial.root / "host-secret"
    trial.root.mkdir(parents=True)
    host.write_text("of the host")
    make = f"ln -s {host}" if kind == "link" else "mkfifo"
    trial.agent = shell(f"rm -rf /agentlab/{name}; {make} /agentlab/{name}")
    assert verdict(await trial.carry_out()) == "fail"
    assert host.read_text() == "of the host"
    for path in trial.folders.root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"of the host" not in path.read_bytes(), path


async def test_huge_files_in_out_are_not_read(trial: Trial) -> None:
    trial.agent = shell("head -c 100000000 /dev/zero > /agentlab/out/result.json")
    completion = await trial.carry_out()
    assert verdict(completion) == "fail"
    assert isinstance(completion.end, Graded)
    assert "invalid_result" in completion.end.flags


async def test_a_fork_bomb_is_ended_and_graded(trial: Trial) -> None:
    trial.sandbox = {"pids": 64}
    # The agent itself forks once, while there is a place for it, and needs no other process from then on.
    trial.agent = shell("bomb() { bomb | bomb & }; bomb & exec sleep 1000")
    trial.agent_changes["timeout_s"] = 3
    completion = await trial.carry_out()
    assert verdict(completion) == "fail"
    assert completion.agent is not None
    assert completion.agent.timed_out


async def test_a_memory_hog_is_told_by_name_and_its_grader_is_not_blamed(trial: Trial) -> None:
    trial.sandbox = {"memory_mb": 64}
    trial.agent = python("x = []\nwhile True: x.append(bytearray(1 << 20))")
    completion = await trial.carry_out()
    assert verdict(completion) == "fail"
    assert isinstance(completion.end, Graded)
    assert completion.end.ended_by == "memory"
    assert completion.grader is not None
    assert not completion.grader.oom_killed


async def test_a_grader_that_runs_out_of_memory_is_to_blame_itself(trial: Trial) -> None:
    trial.sandbox = {"memory_mb": 64}
    trial.grader = python("x = []\nwhile True: x.append(bytearray(1 << 20))")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Failed)
    assert completion.end.reason == "grader_memory"
    assert completion.agent is not None
    assert not completion.agent.oom_killed


async def test_agent_and_grader_out_of_memory_are_told_apart(trial: Trial) -> None:
    trial.sandbox = {"memory_mb": 64}
    trial.agent = trial.grader = python("x = []\nwhile True: x.append(bytearray(1 << 20))")
    completion = await trial.carry_out()
    assert completion.agent is not None
    assert completion.grader is not None
    assert (completion.agent.oom_killed, completion.grader.oom_killed) == (True, True)


async def test_a_flood_of_logs_is_ended(trial: Trial) -> None:
    trial.sandbox = {"disk_mb": 8}
    trial.agent = shell("yes")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.ended_by == "disk"
    assert sum(path.stat().st_size for path in trial.folders.logs.iterdir()) < 2_000_000


async def test_a_flood_of_hints_does_not_hold_us_up(trial: Trial) -> None:
    trial.agent = shell("timeout 2 yes agent > /proc/1/fd/1; echo done")
    started = time.monotonic()
    assert verdict(await trial.carry_out()) == "fail"
    assert time.monotonic() - started < 15
    assert "done" in trial.log("agent.stdout")


async def test_a_disk_filler_is_ended_and_graded(trial: Trial) -> None:
    trial.sandbox = {"disk_mb": 20}
    trial.agent = shell("i=0; while :; do head -c 3000000 /dev/zero > f$i; i=$((i+1)); sleep 0.02; done")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.ended_by == "disk"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees what containers write outside their mounts")
async def test_a_disk_filler_outside_its_folders_is_ended_too(trial: Trial) -> None:
    trial.sandbox = {"disk_mb": 20}
    trial.agent = shell(
        "i=0; while :; do head -c 3000000 /dev/zero > /root/f$i; i=$((i+1)); sleep 0.02; done"
    )
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.ended_by == "disk"


async def test_killing_the_wrapper_is_a_failure_and_no_free_second_try(trial: Trial) -> None:
    trial.agent = python(KILL_WRAPPER)
    trial.grader = shell(PASS)
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded), completion.end
    assert (completion.end.verdict, completion.end.ended_by) == ("fail", "wrapper_killed")


async def test_an_agent_of_another_user_can_not_kill_the_wrapper(trial: Trial) -> None:
    trial.agent = python("import os, signal\n" + KILL_WRAPPER.replace("time.sleep(2)", ""))
    trial.agent_changes["user"] = "app"
    completion = await trial.carry_out()
    assert verdict(completion) == "fail"
    assert isinstance(completion.end, Graded)
    assert completion.end.ended_by is None


async def test_signals_do_not_end_the_wrapper(trial: Trial) -> None:
    trial.agent = shell(
        "for s in HUP INT QUIT USR1 USR2 TERM ALRM STOP KILL; do kill -$s 1; done; sleep 0.3; exit 6"
    )
    completion = await trial.carry_out()
    assert verdict(completion) == "fail"
    assert completion.agent is not None
    assert completion.agent.exit_status == 6


FORGE = """
import os, time
notes = [n for n in ("barrier", "grader", "graded")]
for phase in notes:
    for name in ("phase", "phase-" + "0" * 32):
        text = f"phase={phase}\\nat=1\\nagent=0\\ntry=1\\ncode=0\\ngrader=0\\n"
        open(f"/agentlab/ctl/{name}", "w").write(text)
    os.write(os.open("/proc/1/fd/1", os.O_WRONLY), (phase + "\\n").encode())
    time.sleep(0.3)
stdin = os.open("/proc/1/fd/0", os.O_WRONLY)
evil = '#\\nnumber=1 more= grader_s=5\\ngrader() { echo pwned; }\\n'
for word in ("", "ring ", "ring  ", "end ", "go ", "ring x", "end x", evil, "ring half a line"):
    os.write(stdin, word.encode() + (b"" if "half" in word else b"\\n"))
"""


async def test_forged_notes_hints_and_doorbells_do_nothing(trial: Trial) -> None:
    trial.agent = python(FORGE + "\nraise SystemExit(5)")
    trial.grader = shell(f"echo honest; {FAIL}")
    completion = await trial.carry_out()
    assert verdict(completion) == "fail"
    assert completion.agent is not None
    assert completion.agent.exit_status == 5
    assert trial.log("grader.stdout") == "honest\n"


async def test_obstructed_notes_do_not_stop_the_barrier(trial: Trial) -> None:
    trial.agent = shell("cd /agentlab/ctl; rm -rf *; mkdir phase phase.new; mkfifo late; exit 3")
    completion = await trial.carry_out()
    assert verdict(completion) == "fail"
    assert completion.agent is not None
    assert completion.agent.exit_status == 3


@pytest.mark.parametrize("user", [None, "app"], ids=["root", "app"])
async def test_an_agent_that_searches_everywhere_finds_nothing_of_the_grader(
    trial: Trial, user: str | None
) -> None:
    trial.agent = python(HUNT)
    trial.agent_changes["user"] = user
    trial.hide(grade__py="# HIDDEN-FILE")
    trial.task = {
        "target": "HIDDEN-TARGET",
        "has_target": True,
        "solution": Solution(command=("HIDDEN-FILE",)),
    }
    trial.grader = shell(f"cat /agentlab/grader/*; echo HIDDEN-COMMAND $KEY $PLAIN; {PASS}")
    trial.grader_changes |= {"env": {"PLAIN": "HIDDEN-ENV"}, "secrets": ("KEY",)}
    trial.secrets = {"KEY": "HIDDEN-SECRET"}
    completion = await trial.carry_out()
    assert verdict(completion) == "pass"
    assert trial.log("agent.stdout") == "nothing\n"
    seen = trial.log("grader.stdout")
    assert "HIDDEN-FILE" in seen
    assert "HIDDEN-TARGET" in seen
    assert "[masked:KEY]" in seen


async def test_secrets_are_written_nowhere(trial: Trial) -> None:
    trial.secrets = {"API_KEY": "sk-agents-very-own", "KEY": "sk-graders-very-own"}
    trial.agent_changes["secrets"] = ("API_KEY",)
    trial.grader_changes["secrets"] = ("KEY",)
    trial.agent = shell('[ "$API_KEY" = sk-agents-very-own ] && [ -z "$KEY" ]; echo $API_KEY')
    trial.grader = shell(f'[ "$KEY" = sk-graders-very-own ] && [ -z "$API_KEY" ] && {PASS}')
    completion = await trial.carry_out()
    assert verdict(completion) == "pass"
    assert completion.agent is not None
    assert completion.agent.exit_status == 0
    for path in trial.root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"very-own" not in path.read_bytes(), path


CHEAT = f"rm -f %s; cat > %s <<'END'\n#!/bin/busybox ash\n{PASS}\nEND\nchmod 755 %s"
"""Put in the place of a program, it passes whoever is graded with it."""
REPLACE = {
    "python": CHEAT.replace("%s", "/usr/bin/python3"),
    "sh": CHEAT.replace("%s", "/bin/sh"),
    "pth": "mkdir -p /usr/lib/python3/dist-packages; echo 'import os' > /usr/lib/python3/dist-packages/x.pth",
    "conftest": "echo 'def pytest_runtest_makereport(): return None' > /conftest.py",
    "deleted": "rm /bin/gzip",
}


@pytest.mark.parametrize("what", REPLACE)
async def test_a_changed_system_is_found_and_flagged(trial: Trial, what: str) -> None:
    trial.agent = shell(REPLACE[what])
    trial.experiment_changes = {"on_system_change": "flag"}
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    # Without a shell of the image's, no wrapper can start a grader.
    assert completion.end.flags == (("not_graded",) if what == "sh" else ()) + ("system_changed",)
    assert completion.timing.barrier["system_changes"]


@pytest.mark.parametrize("what", REPLACE)
@pytest.mark.parametrize(
    "how", [{"trust": "strict"}, {"on_system_change": "refuse"}], ids=["strict", "refuse"]
)
async def test_a_changed_system_is_refused_where_asked(trial: Trial, how: dict[str, str], what: str) -> None:
    trial.agent = shell(REPLACE[what])
    trial.grader = shell(PASS)
    trial.experiment_changes = dict(how)
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.verdict == "fail"
    assert completion.end.flags == ("not_graded", "system_changed")
    assert completion.grader is None


@pytest.mark.parametrize("where", ["same", "fresh"])
@pytest.mark.parametrize("what", REPLACE)
async def test_a_changed_system_is_harmless_in_a_fresh_container(trial: Trial, what: str, where: str) -> None:
    trial.agent = shell(f"echo 1 > answer\n{REPLACE[what]}")
    trial.grader = python(
        "import os\n"
        "planted = ('/conftest.py', '/usr/lib/python3/dist-packages/x.pth')\n"
        "said = os.popen('gzip -c answer | gzip -dc').read()  # with the image's own sh and gzip\n"
        "print([path for path in planted if os.path.exists(path)], said)\n"
        f"open('{SCORE}', 'w').write('{{\"verdict\": \"fail\"}}')"
    )
    trial.grader_changes["where"] = where
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert (completion.end.verdict, completion.barrier) == ("fail", "fresh_container")
    assert completion.end.flags == (("system_changed",) if where == "same" else ())
    assert trial.log("grader.stdout") == "[] 1\n\n"


@pytest.mark.parametrize(
    ("sandbox", "user"), [({"read_only": True}, None), ({}, "app")], ids=["read-only", "app"]
)
async def test_names_of_hosts_can_be_kept_from_an_agent(
    trial: Trial, sandbox: dict[str, bool], user: str | None
) -> None:
    trial.sandbox = dict(sandbox)
    trial.agent = shell(
        "for file in hosts resolv.conf; do echo x >> /etc/$file && echo wrote; done; echo end"
    )
    trial.agent_changes["user"] = user
    await trial.carry_out()
    assert trial.log("agent.stdout") == "end\n"


async def test_an_agent_that_only_works_in_its_folders_changes_no_system(trial: Trial) -> None:
    trial.agent = shell("echo x > a; echo y > /tmp/b; echo z > $HOME/c; mkdir -p /var/tmp/d")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.flags == ()


@pytest.mark.parametrize("user", [None, "app"], ids=["root", "app"])
async def test_an_agent_can_not_grow_its_rights(trial: Trial, user: str | None) -> None:
    trial.agent = shell(
        "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status;"
        " mount -t tmpfs x /tmp && echo mounted; mknod /tmp/disk b 8 0 && echo device;"
        " mount -o remount,rw /agentlab && echo remounted; chroot / true && echo chroot;"
        " ls /var/run/docker.sock && echo socket; cat /proc/kcore > /dev/null && echo kcore;"
        " unshare -m true && echo namespace; ls /dev/sda /dev/vda && echo disk"
    )
    trial.agent_changes["user"] = user
    await trial.carry_out()
    told = dict(line.split(":") for line in trial.log("agent.stdout").splitlines())
    assert set(told) == {"CapEff", "CapBnd", "NoNewPrivs", "Seccomp"}
    six = f"{(1 << 0) | (1 << 1) | (1 << 3) | (1 << 5) | (1 << 6) | (1 << 7):016x}"
    assert told["CapBnd"].strip() == six
    assert told["CapEff"].strip() == (six if user is None else "0" * 16)
    assert (told["NoNewPrivs"].strip(), told["Seccomp"].strip()) == ("1", "2")


@pytest.mark.parametrize("user", [None, "app"], ids=["root", "app"])
async def test_files_are_ours_however_an_agent_ended(trial: Trial, user: str | None) -> None:
    trial.sandbox = {"memory_mb": 64}
    trial.agent = python(
        "import os\nos.umask(0o077)\nos.makedirs('deep/er'); open('deep/er/file', 'w').close()\n"
        "x = []\nwhile True: x.append(bytearray(1 << 20))"
    )
    trial.agent_changes["user"] = user
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.ended_by == "memory"
    ours = os.geteuid()
    assert {path.lstat().st_uid for path in trial.folders.workspace.rglob("*")} == {ours}
