from pathlib import Path
from typing import Any

import msgspec
import pytest

from labrunner.gateway.recording.doorjournal import DOORS, open_doors, read_doors, settle_doors
from labrunner.gateway.recording.opendoors import has_open_doors
from labrunner.records.facts.door_event import DoorEvent
from tests.kit.gateway.callrows import IDS


def make_event(**changes: Any) -> DoorEvent:
    event = DoorEvent(
        schema_version="door_event_v1",
        ids=IDS,
        attempt=1,
        ordinal=0,
        phase="agent",
        way="tunnel",
        host="example.com",
        port=443,
        end="refused",
        reason="not_allowed",
        started_at="2026-01-05T00:00:00.000Z",
        ended_at="2026-01-05T00:00:01.000Z",
    )
    return msgspec.structs.replace(event, **changes)


def test_an_event_is_read_back_and_numbered(tmp_path: Path) -> None:
    for port in (1, 2):
        journal = open_doors(tmp_path)
        journal.write(make_event(port=port))
        journal.close()
    assert list(read_doors(tmp_path)) == [make_event(port=1), make_event(port=2, ordinal=1)]


def test_what_a_gateway_that_died_had_under_way_is_an_event_once(tmp_path: Path) -> None:
    lost = make_event(end="failed", reason="gateway_ended", started_at="2026-01-05T00:00:00.500Z")
    journal = open_doors(tmp_path)
    place = journal.begin(make_event(host="over.test", end="failed", reason="gateway_ended"))
    journal.begin(lost)
    journal.write(make_event(host="over.test", end="closed", reason=None), place)
    told = make_event(host="told.test", end="failed", reason="gateway_ended")
    journal.begin(told)
    journal.write(
        msgspec.structs.replace(told, end="closed", reason=None)
    )  # killed before its place was free
    assert has_open_doors(tmp_path)
    for _ in range(2):
        settle_doors(tmp_path)
        assert not has_open_doors(tmp_path)
        ends = [(event.host, event.end, event.reason) for event in read_doors(tmp_path)]
        assert ends == [
            ("over.test", "closed", None),
            ("told.test", "closed", None),
            ("example.com", "failed", "gateway_ended"),
        ]


def test_connections_one_after_another_have_one_place(tmp_path: Path) -> None:
    journal = open_doors(tmp_path)
    for _ in range(100):
        journal.write(make_event(), journal.begin(make_event()))
    assert (tmp_path / "doors-agent.open").stat().st_size == 4096
    journal.close()
    assert not has_open_doors(tmp_path)


def test_lines_that_are_no_events_are_nobodys(tmp_path: Path) -> None:
    (tmp_path / "doors-setup.open").write_bytes(b"{\n" + b"[" * 9000 + b"\n\0\xff\n")
    settle_doors(tmp_path)
    assert list(read_doors(tmp_path)) == []
    assert not has_open_doors(tmp_path)


def test_a_flood_is_counted_and_no_event_or_byte_is_missing(tmp_path: Path) -> None:
    journal = open_doors(tmp_path)
    for _ in range(5000):
        journal.write(make_event(sent=3, received=2, seconds=0.25))
        journal.write(make_event(reason="not_tls"))
    journal.close()
    events = list(read_doors(tmp_path))
    assert len(events) < 100
    assert [event.ordinal for event in events] == list(range(len(events)))
    refused = [event for event in events if event.reason == "not_allowed"]
    assert sum(event.times for event in refused) == 5000
    assert (sum(event.sent for event in refused), sum(event.received for event in refused)) == (15000, 10000)
    assert sum(event.seconds for event in refused) == pytest.approx(1250)
    assert sum(event.times for event in events) == 10000


def test_a_flood_of_hosts_is_counted_without_their_names(tmp_path: Path) -> None:
    journal = open_doors(tmp_path)
    for number in range(3000):
        journal.write(make_event(host=f"{number}.example.com", message="no"))
    journal.close()
    events = list(read_doors(tmp_path))
    assert sum(event.times for event in events) == 3000
    assert len(events) < 1100
    assert {(event.host, event.message) for event in events[1000:]} == {(None, None)}


def test_what_was_counted_is_a_line_whenever_it_has_doubled(tmp_path: Path) -> None:
    journal = open_doors(tmp_path)
    for _ in range(300):
        journal.write(make_event())
    assert sum(event.times for event in read_doors(tmp_path)) == 256  # as after a crash
    journal.close()
    assert sum(event.times for event in read_doors(tmp_path)) == 300


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    journal = open_doors(tmp_path)
    journal.write(make_event())
    journal.close()
    with (tmp_path / DOORS).open("ab") as file:
        file.write(b'{"ids": ')
    journal = open_doors(tmp_path)
    journal.write(make_event())
    journal.close()
    assert [event.ordinal for event in read_doors(tmp_path)] == [0, 1]
