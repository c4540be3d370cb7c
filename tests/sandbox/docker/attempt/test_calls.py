"""Calls into real containers, from a solver that works outside of them."""

import asyncio
import time
from dataclasses import replace

import pytest

from labrunner.experiment.resolved import Network
from labrunner.sandbox.docker.attempt.sandbox import DockerSandbox
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.docker.wrapper.capture import Capture
from labrunner.sandbox.execution import ExecCall, ExecEnd, ExecSandbox
from tests.kit.docker.site import GRADE, Site
from tests.kit.docker.testimages import APP_USER, Images
from tests.kit.sandbox.place import sh

AGENT = sh("never run", network=Network(mode="none"))


def call(script: str, **fields: object) -> ExecCall:
    return ExecCall(argv=("/bin/sh", "-c", script), **fields)  # type: ignore[arg-type] # fields of a call


async def said(sandbox: ExecSandbox, script: str, **fields: object) -> str:
    end = await sandbox.exec(call(script, **fields))
    assert end.exit_status == 0, end
    return end.stdout.decode()


async def test_calls_share_workspace_home_and_processes(site: Site) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        assert isinstance(sandbox, DockerSandbox)
        began = await sandbox.begin(sh("echo ready > set", name="setup"), AGENT)
        assert began is not None
        assert began.exit_status == 0
        assert await said(sandbox, "cat set; pwd") == "ready\n/agentlab/workspace\n"
        await said(sandbox, "echo x > $HOME/h; echo y > $TMPDIR/t; sleep 300 & echo $! > pid")
        assert (
            await said(sandbox, "cat $HOME/h $TMPDIR/t; kill -0 $(cat pid) && echo alive") == "x\ny\nalive\n"
        )
        run = await sandbox.end_all()
        assert run.agent is not None
        assert run.agent.exit_status == 0
        assert await said(sandbox, "kill -0 $(cat pid) 2>/dev/null || echo gone") == "gone\n"


async def test_status_streams_input_folder_and_variables(site: Site) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        assert isinstance(sandbox, ExecSandbox)
        await sandbox.begin(None, AGENT)
        end = await sandbox.exec(call("cat; echo err >&2; exit 7", stdin=b"\x00in", env={"W": "w"}))
        assert (end.exit_status, end.stdout, end.stderr) == (7, b"\x00in", b"err\n")
        await said(sandbox, "mkdir sub")
        assert await said(sandbox, "basename $PWD; echo $W", cwd="sub", env={"W": "w"}) == "sub\nw\n"
        killed = await sandbox.exec(call("kill -9 $$"))
        assert killed.exit_status == 137
        missing = await sandbox.exec(ExecCall(argv=("no-such-program",)))
        assert missing.exit_status == 127


async def test_a_time_limit_ends_the_whole_tree_of_a_call(site: Site) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        assert isinstance(sandbox, ExecSandbox)
        await sandbox.begin(None, AGENT)
        started = time.monotonic()
        script = "echo begun; (setsid sh -c 'echo $$ > pid; exec sleep 301' &) ; sleep 300"
        end = await sandbox.exec(call(script, timeout_s=1.0))
        assert (end.timed_out, end.exit_status, end.stdout) == (True, None, b"begun\n")
        assert time.monotonic() - started < 20
        assert await said(sandbox, "kill -0 $(cat pid) 2>/dev/null || echo gone") == "gone\n"


async def test_a_cancelled_call_is_ended_first(site: Site) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        assert isinstance(sandbox, ExecSandbox)
        await sandbox.begin(None, AGENT)
        task = asyncio.ensure_future(sandbox.exec(call("echo $$ > pid; exec sleep 300")))
        while not (site.spec().folders.workspace / "pid").exists():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await said(sandbox, "kill -0 $(cat pid) 2>/dev/null || echo gone") == "gone\n"


async def test_long_output_loses_its_middle_and_a_held_stream_holds_up_nobody(site: Site) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        assert isinstance(sandbox, ExecSandbox)
        await sandbox.begin(None, AGENT)
        end = await sandbox.exec(
            call("head -c 300000 /dev/zero | tr '\\0' x; sleep 300 & echo; echo end", max_output=9000)
        )
        assert end.is_cut
        assert len(end.stdout) < 9100
        assert end.stdout.endswith(b"end\n")
        assert b"left out here" in end.stdout


async def test_a_setup_that_fails_is_told_at_once(site: Site) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        assert isinstance(sandbox, ExecSandbox)
        began = await sandbox.begin(sh("exit 3", name="setup"), AGENT)
        assert began is not None
        assert began.exit_status == 3


async def test_who_ends_the_sandbox_from_within_is_told_so(site: Site) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        assert isinstance(sandbox, ExecSandbox)
        await sandbox.begin(None, AGENT)
        end: ExecEnd = await sandbox.exec(call("kill -9 -1; sleep 300", timeout_s=60.0))
        while end.stderr != b"the sandbox was ended from within\n":
            end = await sandbox.exec(call("true"))
        assert end.exit_status == 137
        run = await sandbox.end_all()
        assert run.agent is not None


async def test_a_grader_runs_behind_the_barrier_of_calls(site: Site) -> None:
    spec = site.spec()
    async with site.maker.open(spec) as sandbox:
        assert isinstance(sandbox, ExecSandbox)
        await sandbox.begin(None, AGENT)
        await said(sandbox, "echo planted > /agentlab/out/benchmark_score.json; sleep 300 &")
        await sandbox.end_all()
        end = await sandbox.run_grader(sh(f"ps | grep -c 'sleep 300' > count; {GRADE}", name="grader"))
        assert end.exit_status == 0
        assert "planted" not in (spec.folders.out / "benchmark_score.json").read_text()


async def test_calls_follow_an_agent_that_is_a_command(site: Site) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        assert isinstance(sandbox, ExecSandbox)
        await sandbox.run_agent(None, sh("echo made > by-agent"))
        await sandbox.begin(None, AGENT)
        assert await said(sandbox, "cat by-agent") == "made\n"


async def test_calls_are_the_images_user(maker: DockerMaker, images: Images, site: Site) -> None:
    image = await images(APP_USER)
    spec = site.spec()
    spec = replace(spec, plan=replace(spec.plan, image=image))
    async with maker.open(spec) as sandbox:
        assert isinstance(sandbox, ExecSandbox)
        await sandbox.begin(None, AGENT)
        assert (
            await said(sandbox, "id -u; echo x > $HOME/f && echo y > g && echo $FROM_IMAGE") == "1234\nyes\n"
        )
        end = await sandbox.exec(call("sleep 300", timeout_s=0.5))
        assert end.timed_out
        assert await said(sandbox, "id -u", user="0") == "0\n"
        await sandbox.end_all()


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_the_end_of_a_call_is_recognised_however_its_output_is_cut(size: int) -> None:
    said = b"some text\nmark 1\n\nmark-not\n" + b"\nmark 42\n" + b"later"
    capture = Capture(1000, "mark")
    for at in range(0, len(said), size):
        capture.add(said[at : at + size])
    assert capture.status == 1
    assert capture.data == b"some text"
