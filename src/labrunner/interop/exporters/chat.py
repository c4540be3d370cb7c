"""Messages among an agent's events, in the shapes that agents and providers write them.

Rule: an event is a message if it is, or holds under `message`, a map with a `role`.
"""

from collections.abc import Iterator
from typing import Any, Final

from labrunner.gateway.telling.said_in_chats import ROLES, read_turn
from labrunner.interop.exporters.inspect_transcript import make_message

Plain = dict[str, Any]  # JSON, as an `.eval` log has it

_SAID: Final = frozenset({"content", "tool_calls"})


def find_messages(event: object) -> Iterator[Plain]:
    """The messages in an event, as an `.eval` log has them."""
    if not isinstance(event, dict):
        return
    role = event.get("role")
    if isinstance(role, str) and role in ROLES and not _SAID.isdisjoint(event):
        yield from map(make_message, read_turn(ROLES[role], event))
    elif isinstance(event.get("message"), dict):
        yield from find_messages(event["message"])
