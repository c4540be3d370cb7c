"""A transcript, of a Python task or of any agent's calls, as conversation and events of an `.eval` log.

Rules: what that format has an event for becomes one; everything else stays as information. Conversations
beside the first are spans, inside of those out of which they were begun.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from labrunner.interop.exporters.inspect_usage import make_usage
from labrunner.records.encoding import canonical
from labrunner.records.facts.transcript_events import (
    follow_conversations,
    has_conversation,
    known_messages,
    read_conversation,
)

Plain = dict[str, Any]  # JSON, as that format has it

PART_OF_OTHERS: Final = frozenset({"message", "tool_call"})
"""Events of transcripts that become no event of their own."""
LONG: Final = 100
"""Characters of a text from which on events refer to it: every call repeats what was said before."""
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
        spans = Spans.of(self.told)
        made = []
        for event in self.told:
            _, spoken = next(conversations) if has_conversation(event) else (event, ())
            if event["event"] not in PART_OF_OTHERS:
                common = {"timestamp": self.stamp(event.get("at")), "working_start": 0.0}
                heard = [known[number] for number in spoken]
                converted = common | self._convert(event, known, calls, heard)
                made += [common | each for each in spans.place(event, converted)]
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
                return self._model(event, known.get(event.get("output", -1)), spoken)
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

    def _model(self, event: Mapping[str, Any], said: Plain | None, spoken: Sequence[Plain]) -> Plain:
        trouble = event.get("error")
        choices = [{"message": make_message(said), "stop_reason": event["stop_reason"]}] if said else []
        told = {
            "event": "model",
            "model": event["model"],
            "input": [self._refer(make_message(message)) for message in spoken],
            "tools": [{"name": name, "description": ""} for name in event["tools"]],
            "tool_choice": "auto",
            "config": {name: value for name, value in event["config"].items() if name in _SETTINGS},
            "output": {
                "model": event["model"],
                "choices": choices,
                "completion": said["content"] if said else "",
                "usage": None if event["usage"] is None else make_usage(event["usage"]),
                "time": event["seconds"],
            },
            "working_time": event["seconds"],
        }
        return told | {"error": _say_trouble(trouble)} if trouble else told

    def _refer(self, message: Plain) -> Plain:
        content = message["content"]
        if isinstance(content, str):
            return message | {"content": self._attach(content)}
        return message | {
            "content": [part | {part["type"]: self._attach(part[part["type"]])} for part in content]
        }

    def _attach(self, text: str) -> str:
        if len(text) <= LONG:
            return text
        name = canonical.digest(text)[7:39]
        self.attachments[name] = text
        return f"attachment://{name}"


def _say_trouble(trouble: Mapping[str, Any]) -> str:
    words = [trouble.get(name) for name in ("status", "kind", "end")]
    return f"{' '.join(str(word) for word in words if word)}: {trouble.get('message')}"


@dataclass(slots=True)
class Spans:
    """Conversations of a transcript."""

    last: Mapping[int, int]
    """The number of each conversation's last event."""
    begun: set[int] = field(default_factory=set)
    at: int = -1

    @classmethod
    def of(cls, told: Sequence[Mapping[str, Any]]) -> "Spans":
        """Those of a transcript."""
        shown = [event for event in told if event["event"] not in PART_OF_OTHERS]
        return cls({event["thread"]: at for at, event in enumerate(shown) if event.get("thread")})

    def place(self, event: Mapping[str, Any], made: Plain) -> list[Plain]:
        """An event inside its conversation, which it may begin or end."""
        self.at += 1
        thread = event.get("thread")
        if not thread:
            return [made]
        name = f"conversation-{thread}"
        placed = [made | {"span_id": name}]
        if thread not in self.begun:
            self.begun.add(thread)
            parent = event.get("parent")
            outer = {"parent_id": f"conversation-{parent}"} if parent in self.begun else {}
            begin = {"event": "span_begin", "id": name, "name": f"conversation {thread + 1}", "type": "agent"}
            placed.insert(0, begin | outer)
        if self.last[thread] == self.at:
            placed.append({"event": "span_end", "id": name})
        return placed


def make_message(plain: Mapping[str, Any]) -> Plain:
    """A message as that format has it."""
    message = {
        name: plain[name]
        for name in ("role", "content", "model", "tool_call_id", "function")
        if name in plain
    }
    if plain["role"] == "assistant":
        message["source"] = "generate"
        message["content"] = _make_content(plain)
    if plain.get("tool_calls"):
        message["tool_calls"] = [{**call, "type": "function"} for call in plain["tool_calls"]]
    if "error" in plain:
        kind = plain["error"]["type"]
        message["error"] = {"type": _TROUBLE.get(kind, kind), "message": plain["error"]["message"]}
    return message


def _make_content(plain: Mapping[str, Any]) -> str | list[Plain]:
    """An answer's text, behind what the model thought before, where that is shown."""
    thought = plain.get("reasoning")
    if not thought:
        return str(plain["content"])
    return [{"type": "reasoning", "reasoning": thought}, {"type": "text", "text": plain["content"]}]


def make_score(plain: Mapping[str, Any]) -> Plain:
    """A score as that format has it."""
    return {
        "value": plain["value"],
        "answer": plain.get("answer"),
        "explanation": plain.get("explanation"),
        "metadata": plain.get("metadata") if isinstance(plain.get("metadata"), dict) else None,
    }


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
