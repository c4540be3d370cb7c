"""Conversations beside each other, as an `.eval` log brackets what belongs together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Plain = dict[str, Any]  # JSON, as that format has it

PART_OF_OTHERS: Final = frozenset({"message", "tool_call"})
"""Events of transcripts that become no event of their own."""


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
