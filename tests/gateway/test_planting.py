import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labrunner.errors import SandboxFailed
from labrunner.gateway.planting import plant
from labrunner.sandbox.bubblewrap.program import find_bwrap, works_here
from tests.kit.gateway import answers
from tests.kit.gateway.front import TOKEN, run_gateway
from tests.kit.gateway.provider import run_provider

pytestmark = [
    pytest.mark.bwrap,
    pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here"),
]

AGENT = """
import json, socket, sys, urllib.request
port = int(sys.stdin.readline())
body = {"model": "gpt-4o", "messages": [], "max_tokens": 5, "stream": sys.argv[1] == "stream"}
request = urllib.request.Request(
    f"http://127.0.0.1:{port}/openai/chat/completions",
    json.dumps(body).encode(),
    {"authorization": "Bearer " + sys.argv[2], "content-type": "application/json"},
)
sys.stdout.write(urllib.request.urlopen(request, timeout=20).read().decode())
"""
REACH = """
import socket, sys
port = int(sys.stdin.readline())
for address in (("127.0.0.1", int(sys.argv[1])), ("192.0.2.1", 80)):
    try:
        socket.create_connection(address, 2)
        print("reached")
    except OSError as error:
        print("not reached")
socket.create_connection(("127.0.0.1", port), 5)
print("planted")
"""


@contextmanager
def run_inside(program: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A program in a sandbox without a network, and its process id as this side sees it."""
    bwrap = find_bwrap()
    assert bwrap is not None
    told, telling = os.pipe()
    command = [bwrap.path, *bwrap.core_args, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    command += ["--info-fd", str(telling), sys.executable, "-I", "-c", program, *arguments]
    process = subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, pass_fds=[telling])
    os.close(telling)
    text = b""
    while not text.rstrip().endswith(b"}"):  # it comes in pieces
        piece = os.read(told, 4096)
        assert piece, "bwrap ended early"
        text += piece
    os.close(told)
    try:
        yield process, json.loads(text)["child-pid"]
    finally:
        process.kill()
        process.communicate()


def finish(process: subprocess.Popen[bytes], port: int) -> str:
    out, err = process.communicate(b"%d\n" % port, timeout=60)
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.parametrize("form", ["whole", "stream"])
async def test_an_agent_without_a_network_finds_its_model_on_its_own_loopback(
    tmp_path: Path, form: str
) -> None:
    with run_inside(AGENT, form, TOKEN) as (process, pid):
        listener = await asyncio.to_thread(plant, pid)
        port = listener.getsockname()[1]
        async with run_provider() as provider, run_gateway(tmp_path, provider, listener=listener) as front:
            said = await asyncio.to_thread(finish, process, port)
            (row,) = front.rows()
    if form == "whole":
        assert json.loads(said) == answers.CHAT
    else:
        events = list(answers.stream_chat(with_usage=True))
        assert said.encode() == b"".join(events[:-2] + events[-1:])
    assert (row.end, row.cost_usd) == ("answered", 0.00042)


def test_nothing_else_is_reached_and_the_port_is_not_ours() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as here,
        run_inside(REACH, str(here.getsockname()[1])) as (process, pid),
    ):
        with plant(pid) as listener:
            port = listener.getsockname()[1]
            assert finish(process, port).split("\n")[:3] == ["not reached", "not reached", "planted"]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)


def test_a_port_may_be_chosen_and_two_sandboxes_may_have_the_same() -> None:
    with (
        run_inside(REACH, "1") as (_, one),
        run_inside(REACH, "1") as (_, two),
        plant(one, port=8080) as first,
        plant(two, port=8080) as second,
    ):
        assert first.getsockname() == second.getsockname() == ("127.0.0.1", 8080)
        with pytest.raises(SandboxFailed, match="address already in use"):
            plant(one, port=8080)


def test_our_own_namespace_is_no_sandbox() -> None:
    with pytest.raises(SandboxFailed, match="it is our own"):
        plant(os.getpid())


def test_a_process_that_is_gone_is_told() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(SandboxFailed, match=f"network namespace of process {gone.pid}"):
        plant(gone.pid)


def test_no_child_and_no_descriptor_is_left_behind() -> None:
    with run_inside(REACH, "1") as (_, pid):
        plant(pid).close()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            plant(pid).close()
        assert len(os.listdir("/proc/self/fd")) == before


PLAIN = 65534


def plant_as_plain_user(told: int) -> None:
    """In a forked child: become a plain user, start a sandbox, plant into it, and say where."""
    os.setgroups([])
    os.setresgid(PLAIN, PLAIN, PLAIN)
    os.setresuid(PLAIN, PLAIN, PLAIN)
    bwrap = find_bwrap()
    assert bwrap is not None
    reading, writing = os.pipe()
    command = [bwrap.path, *bwrap.core_args, "--ro-bind", "/", "/", "--info-fd", str(writing), "/bin/cat"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, pass_fds=[writing]) as process:
        os.close(writing)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"set up\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"set up\n"  # its last user namespace has been made
        text = b""
        while not text.rstrip().endswith(b"}"):
            text += os.read(reading, 4096)
        with plant(json.loads(text)["child-pid"], port=8080) as listener:
            os.write(told, b"planted at %d" % listener.getsockname()[1])
        process.kill()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_plain_user_plants_into_a_sandbox_of_its_own() -> None:
    reading, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            plant_as_plain_user(told)
        except BaseException as error:  # noqa: BLE001 - told to the test
            os.write(told, repr(error).encode())
        finally:
            os._exit(0)
    os.close(told)
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b"planted at 8080"
    os.waitpid(child, 0)
