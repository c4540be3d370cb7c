"""An experiment whose setup, agent and grader each fetch a page that is allowed, and one that is not."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from labrunner.experiment.resolved import Network, Setup
from tests.kit.gateway.experiments import JUDGE, Ran, Setting, run

_FETCH = """
import os, urllib.error, urllib.request
def fetch(url):
    try:
        return urllib.request.urlopen(url, timeout=30).read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code)
    except OSError as error:
        return type(error).__name__
found = [fetch(os.environ["ALLOWED"]), fetch(os.environ["OTHER"])]
"""
_WRITE = _FETCH + "open(os.environ['AGENTLAB_WORKSPACE'] + '/{name}', 'w').write(' '.join(found))\n"
_GRADE = _FETCH + JUDGE.replace("if answer.exists()", "if found == ['hello', '403'] and answer.exists()")


async def _run_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
    await writer.drain()
    writer.close()


async def check_that_every_phase_reaches_its_hosts(folder: Path, setting: Setting, **options: Any) -> Ran:
    """Each phase has the host that it is allowed and no other, by its own doors."""
    allowed = await asyncio.start_server(_run_page, "127.0.0.1", 0)
    other = await asyncio.start_server(_run_page, "127.0.0.1", 0)
    ports = [server.sockets[0].getsockname()[1] for server in (allowed, other)]
    network = Network(mode="allow", hosts=(f"127.0.0.1:{ports[0]}",))
    env = {"ALLOWED": f"http://127.0.0.1:{ports[0]}/", "OTHER": f"http://127.0.0.1:{ports[1]}/"}
    env |= {"NO_PROXY": "", "no_proxy": ""}
    setting = replace(setting, agent=_WRITE.replace("{name}", "answer.txt"), grader=_GRADE)
    # Nothing but their doors tells setup and agent apart.
    experiment = setting.make(policy_keep="always", on_system_change="ignore")
    [variant], [task] = experiment.variants, experiment.tasks
    setup = Setup(command=("${python}", "-c", _WRITE.replace("{name}", "setup.txt")), network=network)
    variant = replace(variant, agent=replace(variant.agent, network=network, env=env), setup=setup, models=())
    task = replace(task, env=env, grader=replace(task.grader, network=network, env=env))
    async with allowed, other:
        ran = await run(replace(experiment, variants=(variant,), tasks=(task,)), folder, **options)
    workspace = ran.attempt() / "workspace"
    assert (workspace / "setup.txt").read_text() == "hello 403"
    assert (workspace / "answer.txt").read_text() == "hello 403"
    assert [trial.verdict for trial in ran.trials()] == ["pass"]
    rows = [json.loads(line) for line in (ran.attempt() / "doors.jsonl").read_bytes().splitlines()]
    told = sorted((row["phase"], row["end"]) for row in rows)
    assert told == [(phase, end) for phase in ("agent", "grader", "setup") for end in ("closed", "refused")]
    return ran
