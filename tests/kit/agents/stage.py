"""A scripted model server with a key, and an experiment in which an agent by name plays three tasks."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from labrunner.experiment.agents.known_agents import read_agent
from labrunner.experiment.authoring.problems import Problems
from labrunner.experiment.model_script import Script
from labrunner.gateway.dialects.speech import Ask
from labrunner.gateway.scripting.scripted_transport import ScriptedTransport
from labrunner.gateway.serving.headers import find
from tests.kit.agents.roles import Role

KEY = "sk-lab-5e21f08c94d7b3a6"
KEY_NAME = "SCRIPTED_KEY"
KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")
GRADER = """
if [ "$$(cat $file 2>/dev/null)" = "$want" ]; then verdict=pass; else verdict=fail; fi
echo "{\\"verdict\\": \\"$$verdict\\"}" > "$$AGENTLAB_BENCHMARK_SCORE_PATH"
"""
PRICES = {"input": 1.0, "output": 10.0}
TOLD: dict[str, Any] = {"effort": "low", "turns": 20, "system_prompt": "--verse: answer in verse"}
"""The system prompt begins like an option, and is none."""


@dataclass
class ScriptedServer:
    """Answers like a provider, from a script."""

    url: str
    keys: set[str] = field(default_factory=set)
    """What callers showed."""
    asked: int = 0
    bodies: list[str] = field(default_factory=list)
    """What callers sent."""


@contextmanager
def serve_script(role: Role, answers: list[dict[str, Any]] | None = None) -> Iterator[ScriptedServer]:
    given = {"answers": role.answers() if answers is None else answers}
    transport = ScriptedTransport(role.dialect, msgspec.convert(given, Script))

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            server.keys |= {self.headers[name] for name in KEY_HEADERS if self.headers[name]}
            server.asked += self.command == "POST"
            server.bodies.append(body.decode(errors="replace"))
            path = self.path.removeprefix("/v1") if role.dialect == "openai" else self.path
            status, kind, content = asyncio.run(self.ask(path, body))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        async def ask(self, path: str, body: bytes) -> tuple[int, str, bytes]:
            place, _, query = path.partition("?")
            ask = Ask(
                protocol="openai_chat",  # the script's own look at the path decides
                purpose="models" if self.command == "GET" else "generate",
                path=place,
                query=tuple(parse_qsl(query)),
                body=body,
            )
            opened = await transport.send(ask, [])
            content = b"".join([piece async for piece in opened.pieces()])
            return opened.status, find(opened.headers, "content-type"), content

        def log_message(self, *words: object) -> None:
            del words

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    end = "/v1" if role.dialect == "openai" else ""
    server = ScriptedServer(url=f"http://127.0.0.1:{listening.server_port}{end}")
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def find_settings(agent: str) -> dict[str, Any]:
    """Settings that an agent can be told."""
    found = read_agent(agent, Path(), agent, Problems())
    assert found is not None
    return {name: value for name, value in TOLD.items() if name in found.part.settings}


def write_play(folder: Path, agent: str, role: Role, url: str, sandbox: dict[str, Any]) -> Path:
    """Write the experiment: edit a file, run a command, fail on purpose. The agent is told all it can be."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"notes.txt": "old\n", "lines.txt": "1\n2\n3\n"}

    def task(name: str, prompt: str, file: str, want: str) -> dict[str, Any]:
        command = GRADER.replace("$file", file).replace("$want", want)
        return {"id": name, "input": prompt, "files": files, "grader": {"command": command}}

    experiment = {
        "name": "play",
        "tasks": [
            task("edit", "EDIT-IT: in notes.txt, write new for old.", "notes.txt", "new"),
            task("command", "RUN-IT: count the lines of lines.txt into count.txt.", "count.txt", "3"),
            task("fail", "GIVE-UP: prove that 1 is 2 in proof.txt.", "proof.txt", "done"),
        ],
        "models": {
            "scripted": {
                "dialect": role.dialect,
                "base_url": url,
                "key": KEY_NAME,
                "prices": {role.model: PRICES},
                "max_retries": 0,
            }
        },
        "agent": {
            "use": agent,
            "model": f"scripted/{role.model}",
            "args": list(role.args),
            "timeout_s": 600.0,
            **find_settings(agent),
        },
        "sandbox": {"memory_mb": 3072, **sandbox},
        "keep": {"workspace": "always"},
        "on_system_change": "flag",
        "fail_on_error": False,
    }
    (folder / "experiment.yaml").write_text(json.dumps(experiment, indent=1))
    return folder
