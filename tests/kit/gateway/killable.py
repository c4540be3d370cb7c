"""`lab` as a command, of whoever runs tests or of a plain user, whose agents ask a model: to be killed."""

import asyncio
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labrunner.gateway.recording.calljournal import read_calls
from labrunner.records.facts.model_call import GATEWAY_ENDED, CallRow
from tests.kit.cli.calling import LAB
from tests.kit.docker.plainuser import give_to_nobody, write_plain_command
from tests.kit.gateway.experiments import CLIENT, JUDGE, KEY_NAME
from tests.kit.gateway.owning import find_daemons
from tests.kit.gateway.provider import KEY, Provider

STREAM = (
    CLIENT
    + """
import time
open("started.txt", "a").write("x")
cuts = 0
while True:
    try:
        said = ask(stream=True)
        break
    except Exception:
        cuts += 1
        time.sleep(0.05)
open("answer.txt", "w").write(said)
open("cuts.txt", "w").write(str(cuts))
"""
)
"""Asks for a stream, again when it was cut."""

PAUSING = (
    CLIENT
    + """
import time

def insist(**more):
    while True:
        try:
            return ask(**more)
        except Exception:
            time.sleep(0.05)

said = insist(stream=True)
for n in range(3):
    time.sleep(0.5 if n else 0)
    said += insist(messages=[{"role": "user", "content": str(n)}])
open("answer.txt", "w").write(said)
"""
)
"""Asks four times, with pauses in which somebody may be killed; again where a connection was cut."""

COUNT = (
    CLIENT
    + """
import http.client, time, urllib.parse
place = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
head = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
body = json.dumps({"model": "gpt-4o", "messages": [], "max_tokens": 5, "stream": True})
seen = {"cut": 0, "refused": 0, "later": 0, "other": []}
said = b""
while not said:
    line = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    try:
        line.connect()
    except OSError:
        seen["refused"] += 1
        time.sleep(0.02)
        continue
    try:
        line.request("POST", place.path + "/chat/completions", body, head)
        answer = line.getresponse()
        if answer.status == 200:
            said = answer.read()
        elif answer.status == 503:
            seen["later"] += 1
            time.sleep(0.02)
        else:
            seen["other"].append(answer.status)
    except (http.client.HTTPException, OSError):
        seen["cut"] += 1
open("answer.txt", "w").write(said.decode())
open("seen.json", "w").write(json.dumps(seen))
"""
)
"""Asks for a stream, and counts connections that broke; those that did not come to be are no such thing."""


@dataclass(frozen=True, kw_only=True)
class Killable:
    """A folder with an experiment."""

    folder: Path
    url: str
    sandbox: str
    tasks: int = 1
    key: str = KEY_NAME
    key_value: str | None = KEY
    run_id: str = "the-run"
    words: tuple[str, ...] = ()
    """More words for `lab`."""
    agent: str = STREAM
    grader: str = JUDGE
    network: str = "{models: [main]}"
    grader_network: str = "none"
    user: str = "null"
    more: str = ""
    """Further fields of the experiment."""
    plain: Path | None = None
    """Where a plain user has what is needed; None: whoever runs the tests."""

    def write(self) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "agent").mkdir()
        (self.folder / "grader").mkdir()
        (self.folder / "agent/agent.py").write_text(self.agent)
        (self.folder / "grader/judge.py").write_text(self.grader)
        (self.folder / "tasks.jsonl").write_text(
            "".join(json.dumps({"id": f"t{n}", "input": n}) + "\n" for n in range(self.tasks))
        )
        (self.folder / "experiment.yaml").write_text(f"""
name: killed
tasks: tasks.jsonl
models:
  main:
    dialect: openai
    base_url: "{self.url}/v1"
    key: {self.key}
    prices: {{gpt-4o: {{input: 1, output: 10}}}}
agent:
  dir: agent
  command: ["$python", -B, "$agent_dir/agent.py"]
  network: {self.network}
  user: {self.user}
  timeout_s: 300
grader:
  dir: grader
  command: ["$python", -B, "$grader_dir/judge.py"]
  network: {self.grader_network}
  timeout_s: 60
sandbox: {self.sandbox}
max_concurrency: 8
min_free_disk_gb: 0
keep: {{workspace: always}}
{self.more}
""")
        if self.plain is not None:
            give_to_nobody(self.folder)

    @property
    def run(self) -> Path:
        return self.folder / ".lab" / "runs" / self.run_id

    async def start(self) -> asyncio.subprocess.Process:
        begun = ("continue", self.run_id) if self.run.is_dir() else ("run", "--run-id", self.run_id)
        words = (LAB, *begun, *self.words)
        known = {} if self.key_value is None else {KEY_NAME: self.key_value}
        return await asyncio.create_subprocess_exec(
            *(words if self.plain is None else write_plain_command(self.plain, *words[1:])),
            cwd=self.folder,
            env={**os.environ, **known},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    async def finish(self) -> None:
        process = await self.start()
        _, told = await asyncio.wait_for(process.communicate(), 200)
        assert process.returncode == 0, told.decode()

    def reaches(self) -> set[str]:
        """How the doors of all attempts were reached, by their records."""
        lines = (self.run / "facts/timings.jsonl").read_bytes().splitlines()
        return {each["limits"]["reach"] for line in lines for each in json.loads(line)["attempts"]}

    def seen(self) -> list[Any]:
        """What each agent counted."""
        return [
            json.loads(path.read_text()) for path in sorted(self.run.glob("trials/*/*/workspace/seen.json"))
        ]

    def attempts(self) -> list[Path]:
        """Folders of attempts, those that were cut off too."""
        return sorted(self.run.glob("trials/*/*"))

    def read_chain(self, run: Path | None = None) -> str:
        """What every result of a run is hashed into."""
        chain: str = json.loads(((run or self.run) / "status.json").read_bytes())["chain"]
        return chain

    def read_expense(self) -> dict[str, dict[str, float]]:
        """What the only variant used, by the run's summary."""
        [figures] = json.loads((self.run / "benchmark/summary.json").read_bytes())["ext"]["figures"].values()
        expense: dict[str, dict[str, float]] = figures["expense"]
        return expense

    def calls(self) -> list[CallRow]:
        return [call for folder in self.attempts() for call in self.calls_of(folder)]

    def calls_of(self, folder: Path) -> list[CallRow]:
        return sorted(read_calls(folder), key=lambda call: call.ordinal)

    def answers(self) -> list[str]:
        return [path.read_text() for path in sorted(self.run.glob("trials/*/*/workspace/answer.txt"))]


async def kill(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.communicate()


async def kill_with_its_gateway(lab: Killable, provider: Provider) -> None:
    """Kill lab and gateway while an agent hears its model, and go on: one attempt, one answer."""
    provider.gate = asyncio.Event()
    process = await lab.start()
    await asyncio.wait_for(provider.begun.wait(), 120)
    [pid] = find_daemons(lab.run)
    await kill(process)
    os.kill(pid, signal.SIGKILL)
    provider.gate.set()
    await lab.finish()
    assert len(lab.attempts()) == 1
    check_that_the_cut_call_is_shown(lab.calls())


async def check_that_a_killed_gateway_cuts_one_connection_of_each(lab: Killable, provider: Provider) -> None:
    """Kill the gateway while every agent of a lab that counts hears its model: each goes on, and lost one."""
    provider.gate = asyncio.Event()
    process = await lab.start()
    async with asyncio.timeout(120):
        while len(provider.got) < lab.tasks:
            assert process.returncode is None, (await process.communicate())[1].decode()
            await asyncio.sleep(0.02)
    [pid] = find_daemons(lab.run)
    os.kill(pid, signal.SIGKILL)
    provider.gate.set()
    _, told = await asyncio.wait_for(process.communicate(), 150)
    assert process.returncode == 0, told.decode()
    assert [each["cut"] for each in lab.seen()] == [1] * lab.tasks
    assert [each["other"] for each in lab.seen()] == [[]] * lab.tasks
    assert len(lab.answers()) == len(lab.attempts()) == lab.tasks
    assert len(lab.attempts()) == lab.tasks
    for folder in lab.attempts():
        check_that_the_cut_call_is_shown(lab.calls_of(folder))
    assert find_daemons(lab.run) == []


def check_that_the_cut_call_is_shown(calls: list[CallRow]) -> None:
    """Check the calls of an attempt whose gateway was killed midway: one was cut, and counts from above."""
    cut, answered = calls
    assert (cut.end, answered.end) == ("cut", "answered")
    assert cut.error is not None
    assert cut.error.kind == GATEWAY_ENDED
    assert cut.tokens is not None
    assert cut.tokens.basis == "reserved"
    assert (cut.cost_usd or 0) > (answered.cost_usd or 0)
    assert cut.call_id != answered.call_id
