"""A Python task's transcript as the conversation and the events of an `.eval` log.

Rule: what that format has an event for becomes one; everything else stays as information.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from labrunner.records.encoding import canonical
from labrunner.records.facts.transcript_events import (
    follow_conversations,
    has_conversation,
    known_messages,
    read_conversation,
)

Plain = dict[str, Any]  # JSON, as that format has it

LONG: Final = 100
"""Characters of a text from which on events refer to it: every call repeats what was said before."""
_PART_OF_OTHERS: Final = frozenset({"message", "tool_call"})
_SETTINGS: Final = frozenset(
    {
        "temperature",
        "max_tokens",
        "top_p",
        "top_k",
        "seed",
        "stop_seqs",
        "frequency_penalty",
        "presence_penalty",
        "parallel_tool_calls",
        "system_message",
    }
)
_TROUBLE: Final = {"file": "file_not_found", "tool": "unknown"}


@dataclass(slots=True)
class Conversation:
    """One attempt's transcript, taken apart."""

    told: Sequence[Mapping[str, Any]]
    stamp: Callable[[object], str]
    """Writes a time as that format does."""
    attachments: dict[str, str] = field(default_factory=dict)
    """Long texts that events refer to."""

    @property
    def tells_its_end(self) -> bool:
        """Whether the score, or what went wrong, stands in it."""
        return any(event["event"] in {"score", "error"} for event in self.told)

    def messages(self) -> list[Plain]:
        """What was said, as the solver left it."""
        return [make_message(message) for message in read_conversation(self.told)]

    def answer(self) -> str | None:
        """The answer that was scored; None where there was none."""
        scored = next((event for event in self.told if event["event"] == "scoring"), None)
        return None if scored is None else str(known_messages(self.told)[scored["output"]]["content"]) or None

    def events(self) -> list[Plain]:
        """What happened, in order."""
        known = known_messages(self.told)
        calls = {event["id"]: event for event in self.told if event["event"] == "tool_call"}
        conversations = follow_conversations(self.told)
        made = []
        for event in self.told:
            _, spoken = next(conversations) if has_conversation(event) else (event, ())
            if event["event"] not in _PART_OF_OTHERS:
                common = {"timestamp": self.stamp(event.get("at")), "working_start": 0.0}
                heard = [known[number] for number in spoken]
                made.append(common | self._convert(event, known, calls, heard))
        return made

    def _convert(
        self,
        event: Mapping[str, Any],
        known: Mapping[int, Plain],
        calls: Mapping[str, Mapping[str, Any]],
        spoken: Sequence[Plain],
    ) -> Plain:
        match event["event"]:
            case "model":
                return self._model(event, known[event["output"]], spoken)
            case "tool":
                return _tool(event, known[event["result"]], calls.get(event["id"], {}))
            case "sandbox":
                return _sandbox(event)
            case "score":
                return {"event": "score", "score": make_score(event), "scorer": event["scorer"]}
            case "error":
                traceback = event.get("traceback") or ""
                message = f"{event['cause']}: {event['message']}"
                error = {"message": message, "traceback": traceback, "traceback_ansi": traceback}
                return {"event": "error", "error": error}
            case _:
                return {"event": "info", "source": "labrunner", "data": dict(event)}

    def _model(self, event: Mapping[str, Any], said: Plain, spoken: Sequence[Plain]) -> Plain:
        answer = make_message(said)
        return {
            "event": "model",
            "model": event["model"],
            "input": [self._refer(make_message(message)) for message in spoken],
            "tools": [{"name": name, "description": ""} for name in event["tools"]],
            "tool_choice": "auto",
            "config": {name: value for name, value in event["config"].items() if name in _SETTINGS},
            "output": {
                "model": event["model"],
                "choices": [{"message": answer, "stop_reason": event["stop_reason"]}],
                "completion": answer["content"],
                "usage": None if event["usage"] is None else _usage(event["usage"]),
                "time": event["seconds"],
            },
            "working_time": event["seconds"],
        }

    def _refer(self, message: Plain) -> Plain:
        text = message["content"]
        if len(text) <= LONG:
            return message
        name = canonical.digest(text)[7:39]
        self.attachments[name] = text
        return message | {"content": f"attachment://{name}"}


def make_message(plain: Mapping[str, Any]) -> Plain:
    """A message as that format has it."""
    message = {
        name: plain[name]
        for name in ("role", "content", "model", "tool_call_id", "function")
        if name in plain
    }
    if plain["role"] == "assistant":
        message["source"] = "generate"
    if plain.get("tool_calls"):
        message["tool_calls"] = [{**call, "type": "function"} for call in plain["tool_calls"]]
    if "error" in plain:
        kind = plain["error"]["type"]
        message["error"] = {"type": _TROUBLE.get(kind, kind), "message": plain["error"]["message"]}
    return message


def make_score(plain: Mapping[str, Any]) -> Plain:
    """A score as that format has it."""
    return {
        "value": plain["value"],
        "answer": plain.get("answer"),
        "explanation": plain.get("explanation"),
        "metadata": plain.get("metadata") if isinstance(plain.get("metadata"), dict) else None,
    }


def _usage(plain: Mapping[str, Any]) -> Plain:
    names = {"cost_usd": "total_cost"}
    return {names.get(name, name): value for name, value in plain.items() if value is not None}


def _tool(event: Mapping[str, Any], result: Plain, call: Mapping[str, Any]) -> Plain:
    answer = make_message(result)
    told = {
        "event": "tool",
        "type": "function",
        "id": event["id"],
        "function": event["function"],
        "arguments": call.get("arguments", {}),
        "result": answer["content"],
        "working_time": event["seconds"],
    }
    return told | {"error": answer["error"]} if "error" in answer else told


def _sandbox(event: Mapping[str, Any]) -> Plain:
    match event["action"]:
        case "exec":
            return {
                "event": "sandbox",
                "action": "exec",
                "cmd": shlex.join(event["command"]),
                "result": event["exit_status"],
                "output": "\n\n".join(text for text in (event["stderr"], event["stdout"]) if text),
            }
        case action:
            return {"event": "sandbox", "action": action, "file": event["file"]}
