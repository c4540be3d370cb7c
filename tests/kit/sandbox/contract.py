"""What every sandbox promises; a kind joins by collecting these with a `place` of its own."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.kit.sandbox.place import PATH, Place, phase, sh


@pytest.mark.parametrize("status", [0, 1, 3, 75, 137, 255])
async def test_exit_status_is_the_commands_own(place: Place, status: int) -> None:
    end = await place.run(sh(f"exit {status}"))
    assert end.exit_status == status
    assert (end.timed_out, end.oom_killed, end.over_disk) == (False, False, False)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_a_signal_is_told_as_128_and_its_number(place: Place, number: signal.Signals) -> None:
    assert (await place.run(sh(f"kill -{number.value} $$"))).exit_status == 128 + number


async def test_a_command_that_is_not_there_exits_like_in_a_shell(place: Place) -> None:
    assert (await place.run(phase("no-such-command", "x"))).exit_status == 127
    assert "no-such-command" in place.stderr()


async def test_commands_are_found_on_the_path_of_their_own_environment(place: Place) -> None:
    assert (await place.run(phase("true"))).exit_status == 0


async def test_the_agent_is_not_started_after_a_failed_setup(place: Place) -> None:
    async with place.open() as sandbox:
        run = await sandbox.run_agent(sh("echo no >&2; exit 4", name="setup"), sh("touch ran"))
    assert run.setup is not None
    assert run.setup.exit_status == 4
    assert run.agent is None
    assert place.stderr("setup") == "no\n"
    assert not (place.folders.workspace / "ran").exists()


async def test_the_workspace_is_the_working_directory_and_stays_between_phases(place: Place) -> None:
    async with place.open() as sandbox:
        await sandbox.run_agent(sh("echo 1 > a", name="setup"), sh("cat a; echo 2 > b"))
        end = await sandbox.run_grader(sh('cat a b; test "$(pwd)" -ef .', name="grader"))
    assert end.exit_status == 0
    assert place.stdout("agent") == "1\n"
    assert place.stdout("grader") == "1\n2\n"
    owner = (place.folders.workspace / "b").stat().st_uid
    assert owner == os.geteuid()


async def test_the_environment_is_exactly_what_was_given(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_SECRET", "leak")
    dump = "import os, json; print(json.dumps(dict(os.environ)))"
    env = {"PATH": PATH, "PYTHONUTF8": "1", "EMPTY": "", "ODD": "a=b\n\u00fc $HOME '\""}
    await place.run(phase(place.paths.python, "-I", "-c", dump, env=env))
    seen = json.loads(place.stdout())
    assert seen.pop("HOME")
    assert seen.pop("TMPDIR")
    assert seen.pop("PWD") == place.paths.workspace
    seen.pop("LC_CTYPE", None)  # Python's own doing
    assert seen.pop("AGENTLAB_IMAGE_USER", "") == ""  # of images alone
    assert seen == env


async def test_home_and_tmpdir_are_private_empty_and_fresh_in_every_phase(place: Place) -> None:
    look = 'ls -A "$HOME" "$TMPDIR" | grep -v :; touch "$HOME/x" "$TMPDIR/x"'
    async with place.open() as sandbox:
        run = await sandbox.run_agent(sh(look, name="setup"), sh(look))
        first = await sandbox.run_grader(sh(look, name="grader"))
        second = await sandbox.run_grader(sh(look, name="grader"))
    assert [end and end.exit_status for end in (run.setup, run.agent, first, second)] == [0, 0, 0, 0]
    listed = (place.stdout("setup") + place.stdout("agent") + place.stdout("grader")).split()
    # An interpreter that lies below the host's /tmp is shown where it lies.
    parts = {Path(prefix).parts[2] for prefix in (sys.prefix, sys.base_prefix) if prefix.startswith("/tmp/")}
    assert [name for name in listed if name not in parts] == []


async def test_standard_input_is_closed_unless_a_file_is_given(place: Place, tmp_path: Path) -> None:
    await place.run(sh("cat; echo end"))
    assert place.stdout() == "end\n"
    prompt = tmp_path / "prompt"
    prompt.write_text("do it\n")
    await place.run(sh("cat", stdin=prompt))
    assert place.stdout() == "end\ndo it\n"


async def test_no_descriptor_of_the_runner_is_inherited(place: Place) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        await place.run(sh("ls /proc/self/fd"))
    finally:
        os.close(reader)
        os.close(writer)
    assert place.stdout().split() == ["0", "1", "2", "3"]  # the last is ls, looking


async def test_big_output_goes_through(place: Place) -> None:
    end = await place.run(sh("head -c 50000000 /dev/zero; head -c 1000000 /dev/zero >&2"))
    assert end.exit_status == 0
    assert (place.folders.logs / "agent.stdout").stat().st_size == 50_000_000
    assert (place.folders.logs / "agent.stderr").stat().st_size == 1_000_000


async def test_python_habits_about_signals_are_not_inherited(place: Place) -> None:
    await place.run(sh("grep SigIgn /proc/self/status"))
    ignored = int(place.stdout().split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


async def test_time_out_ends_the_whole_tree(place: Place) -> None:
    end = await place.run(place.tree("stay", timeout_s=1.5))
    assert (end.timed_out, end.exit_status) == (True, None)
    assert 1.4 < end.seconds < 20
    assert (place.folders.workspace / "started").read_text() == "4"
    assert not place.processes_hold_the_lock()


async def test_daemons_are_gone_at_the_barrier(place: Place) -> None:
    async with place.open() as sandbox:
        run = await sandbox.run_agent(None, place.tree("leave"))
        assert run.agent is not None
        assert run.agent.exit_status == 0
        assert (place.folders.workspace / "started").read_text() == "4"
        assert not place.processes_hold_the_lock()


async def test_cancelling_ends_the_whole_tree_before_it_returns(place: Place) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(place.run(place.tree("stay")))
        while not (place.folders.workspace / "started").exists():
            await asyncio.sleep(0.01)
        assert place.processes_hold_the_lock()
        task.cancel()
    assert task.cancelled()
    assert not place.processes_hold_the_lock()


async def test_a_second_cancel_does_not_leave_processes_behind(place: Place) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(place.run(place.tree("stay")))
        while not (place.folders.workspace / "started").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
    assert not place.processes_hold_the_lock()


async def test_grader_files_are_not_there_before_the_barrier(place: Place) -> None:
    async with place.open() as sandbox:
        await sandbox.run_agent(None, sh(f"ls -A {place.paths.grader}"))
        (place.folders.grader / "tests.py").write_text("hidden")
        end = await sandbox.run_grader(sh(f"cat {place.paths.grader}/tests.py", name="grader"))
    assert place.stdout("agent") == ""
    assert end.exit_status == 0
    assert place.stdout("grader") == "hidden"


async def test_the_grader_can_run_again(place: Place) -> None:
    async with place.open() as sandbox:
        await sandbox.run_agent(None, sh(":"))
        first = await sandbox.run_grader(sh("echo one; exit 1", name="grader"))
        second = await sandbox.run_grader(sh("echo two", name="grader"))
    assert (first.exit_status, second.exit_status) == (1, 0)
    assert place.stdout("grader") == "one\ntwo\n"


async def test_over_the_disk_limit_the_phase_is_ended(place: Place) -> None:
    fill = "i=0; while :; do head -c 4000000 /dev/zero > f$i; i=$((i+1)); sleep 0.05; done"
    end = await place.run(sh(fill), disk_mb=20)
    assert (end.over_disk, end.exit_status, end.timed_out) == (True, None, False)


async def test_files_without_content_are_limited_too(place: Place) -> None:
    many = "i=0; while [ $i -lt 10100 ]; do : > f$i; i=$((i+1)); done"
    end = await place.run(sh(many), disk_mb=20)
    assert (end.over_disk, end.timed_out) == (True, False)


async def test_a_short_agent_over_its_disk_limit_is_told_too(place: Place) -> None:
    end = await place.run(sh("for i in 1 2 3 4 5; do head -c 5000000 /dev/zero > f$i; done"), disk_mb=20)
    assert end.over_disk


async def test_a_flood_of_output_is_stopped(place: Place) -> None:
    end = await place.run(phase("yes"), disk_mb=8)
    assert end.over_disk
    assert (place.folders.logs / "agent.stdout").stat().st_size <= 9 * 1024 * 1024


async def test_the_grader_may_judge_what_is_over_the_limit(place: Place) -> None:
    async with place.open(disk_mb=8) as sandbox:
        run = await sandbox.run_agent(None, sh("for i in 1 2 3; do head -c 7000000 /dev/zero > f$i; done"))
        end = await sandbox.run_grader(sh("sleep 1", name="grader"))
    assert run.agent is not None
    assert run.agent.over_disk
    assert (end.exit_status, end.over_disk) == (0, False)


@pytest.mark.usefixtures("need_groups")
async def test_memory_running_out_is_told_by_the_kernel(place: Place) -> None:
    eat = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    end = await place.run(phase(place.paths.python, "-c", eat), memory_mb=64, asked=("memory_mb",))
    assert end.oom_killed
    assert end.exit_status == 137


@pytest.mark.usefixtures("need_groups")
async def test_exit_137_alone_is_not_memory_running_out(place: Place) -> None:
    await place.run(
        phase(place.paths.python, "-c", "x = bytearray(1 << 30)"), memory_mb=64, asked=("memory_mb",)
    )
    end = await place.run(sh("kill -9 $$"), memory_mb=64, asked=("memory_mb",))
    assert (end.exit_status, end.oom_killed) == (137, False)


@pytest.mark.usefixtures("need_groups")
async def test_a_fork_bomb_stops_at_the_limit(place: Place) -> None:
    bomb = (
        "import os\nn = 0\n"
        "try:\n"
        "    while True:\n"
        "        if os.fork() == 0:\n            import signal; signal.pause()\n"
        "        n += 1\n"
        "except OSError: print(n)"
    )
    end = await place.run(phase(place.paths.python, "-c", bomb), pids=32, asked=("pids",))
    assert end.exit_status == 0
    assert int(place.stdout()) == 31
