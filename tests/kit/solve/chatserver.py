"""A local server that speaks the OpenAI chat protocol and does what a test tells it to."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Say:
    """Answer with a text, or ask for tools."""

    text: str | None = None
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    tokens: tuple[int, int] = (10, 5)
    finish: str | None = None


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """Answer with an HTTP status."""

    status: int
    retry_after: str | None = None
    code: str = "trouble"


@dataclass(frozen=True, kw_only=True)
class Babble:
    """Answer with status 200 and whatever this is."""

    body: bytes
    kind: str = "application/json"


Misbehave = Literal["hang", "cut"]
Reply = Say | Refuse | Babble | Misbehave


@dataclass
class ChatServer:
    """Counts what it is asked; `reply` decides what it answers."""

    reply: Callable[[dict[str, Any]], Reply]
    requests: list[dict[str, Any]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)

    def enter(self, asked: dict[str, Any]) -> None:
        with self.lock:
            self.requests.append(asked)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)

    def leave(self) -> None:
        with self.lock:
            self.at_once -= 1


def last_user(asked: Mapping[str, Any]) -> str:
    return next(str(each["content"]) for each in reversed(asked["messages"]) if each["role"] == "user")


def completion(asked: Mapping[str, Any], say: Say) -> dict[str, Any]:
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (name, given) in enumerate(say.calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": say.text}
    if calls:
        message["tool_calls"] = calls
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": asked["model"],
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": say.finish or ("tool_calls" if calls else "stop"),
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": say.tokens[0],
            "completion_tokens": say.tokens[1],
            "total_tokens": sum(say.tokens),
        },
    }


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"  # type: ignore[mutable-override]  # only this server makes these
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = self.server.chat
        chat.enter(asked)
        try:
            reply = chat.reply(asked)
        finally:
            chat.leave()
        match reply:
            case Say():
                self._send(200, completion(asked, reply), {})
            case Refuse():
                headers = {"Retry-After": reply.retry_after} if reply.retry_after else {}
                error = {"message": "no", "type": reply.code, "code": reply.code, "param": None}
                self._send(reply.status, {"error": error}, headers)
            case Babble():
                self._write(200, reply.body, {"Content-Type": reply.kind})
            case "hang":
                chat.closing.wait(30)
                self.close_connection = True
            case "cut":
                self.close_connection = True
                self.connection.close()

    def _send(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self._write(status, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})

    def _write(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512
    chat: ChatServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that we cut, or that its client did."""


@contextmanager
def serving(reply: Callable[[dict[str, Any]], Reply]) -> Iterator[ChatServer]:
    """Serve on loopback while inside."""
    server = _Server(("127.0.0.1", 0), _Handler)
    chat = server.chat = ChatServer(reply)
    chat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield chat
    finally:
        chat.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
