"""What a trial's page says of hosts that its phases asked for."""

from typing import Any

from labrunner.display.trials.hosts_asked import SHOWN, show_hosts
from labrunner.records.facts.door_event import DoorEvent
from tests.kit.display.printing import to_text
from tests.kit.gateway.callrows import IDS


def event(**changes: Any) -> DoorEvent:
    given: dict[str, Any] = {
        "host": "example.com",
        "port": 443,
        "end": "closed",
        "phase": "agent",
        "started_at": "2026-01-05T00:00:00.000Z",
        "ended_at": "2026-01-05T00:00:01.000Z",
    }
    return DoorEvent(schema_version="door_event_v1", ids=IDS, attempt=1, ordinal=0, **{**given, **changes})


def test_what_was_refused_stands_first_and_what_happened_often_once() -> None:
    told = to_text(
        show_hosts(
            [
                event(sent=100, received=2000),
                event(sent=100, received=3000),
                event(host="evil.example", end="refused", reason="not_allowed", times=7),
            ]
        )
        or ""
    )
    rows = [line.split() for line in told.splitlines() if "example" in line]
    assert rows == [
        ["refused", "evil.example:443", "agent", "not_allowed", "7", "0", "B", "0", "B"],
        ["reached", "example.com:443", "agent", "2", "200", "B", "5.0", "kB"],
    ]


def test_names_can_not_move_the_cursor_and_many_are_cut() -> None:
    hosts = [event(host=f"h{number}.example", end="refused") for number in range(SHOWN + 3)]
    told = to_text(show_hosts([*hosts, event(host="\x1b[2J", end="refused", times=9)]) or "")
    assert "\x1b" not in told
    assert "\\x1b[2J:443" in told
    assert "and 4 more hosts" in told


def test_nothing_asked_for_is_nothing() -> None:
    assert show_hosts([]) is None
