"""Calls of an attempt, recorded by the real gateway, as they are kept."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from labrunner.files.strangers.masking import make_masker
from labrunner.gateway.recording.calljournal import BODIES, CALLS, read_bodies, read_calls
from labrunner.gateway.recording.doorjournal import DOORS, open_doors
from labrunner.gateway.telling.answering import hear_answer
from labrunner.records.encoding import canonical
from labrunner.records.facts.door_event import DoorEvent
from labrunner.sandbox.door import AttemptFolders
from labrunner.trial.collecting.collection import Collected, collect
from labrunner.trial.collecting.cut_off import redact_cut_off
from tests.kit.gateway.callrows import IDS
from tests.kit.gateway.front import make_client, run_gateway
from tests.kit.gateway.provider import KEY, run_provider
from tests.kit.syncing import listen

SECRET = "hunter2-hunter2"
MASKER = make_masker({"OPENAI_API_KEY": KEY, "PASSWORD": SECRET})


@pytest.fixture
def folders(tmp_path: Path) -> AttemptFolders:
    made = AttemptFolders(root=tmp_path / "trials" / "trial" / "1")
    for folder in made.all():
        folder.mkdir(parents=True)
    return made


async def call(folders: AttemptFolders, *bodies: dict[str, Any]) -> None:
    async with (
        run_provider() as provider,
        run_gateway(folders.root, provider) as front,
        make_client(front) as client,
    ):
        for body in bodies:
            answer = await client.post("/openai/chat/completions", json={"model": "m", **body})
            assert answer.status_code == 200, answer.text


def ask(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def digest_of(path: Path) -> str:
    return canonical.digest_bytes(path.read_bytes())


def refs(kept: Collected) -> dict[str, tuple[str, int]]:
    return {ref.path: (ref.digest, ref.size) for ref in kept.logs}


async def test_calls_and_bodies_are_named_by_digest_and_synced(
    folders: AttemptFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call(folders, ask("hello"))
    journal = open_doors(folders.root)
    at = "2026-01-05T00:00:00.000Z"
    journal.write(
        DoorEvent(
            schema_version="door_event_v1",
            ids=IDS,
            attempt=1,
            ordinal=0,
            phase="agent",
            end="refused",
            started_at=at,
            ended_at=at,
        )
    )
    journal.close()
    synced = listen(monkeypatch)
    kept = collect(folders, MASKER)
    for name in (CALLS, BODIES, DOORS):
        path = folders.root / name
        assert refs(kept)[name] == (digest_of(path), path.stat().st_size)
        assert str(path) in synced
    assert str(folders.root) in synced
    assert kept.masked_secrets == 0


async def test_what_holds_no_secret_stays_byte_for_byte(folders: AttemptFolders) -> None:
    await call(folders, ask("hello", stream=True), ask("again"))
    before = [(folders.root / name).read_bytes() for name in (CALLS, BODIES)]
    collect(folders, MASKER)
    assert [(folders.root / name).read_bytes() for name in (CALLS, BODIES)] == before


async def test_a_body_with_a_secret_is_masked_and_keeps_the_digest_of_what_was_sent(
    folders: AttemptFolders,
) -> None:
    await call(folders, ask(f"my password is {SECRET}"), ask("nothing here"))
    before = {row.digest for row in read_bodies(folders.root)}
    kept = collect(folders, MASKER)
    assert SECRET not in (folders.root / BODIES).read_text()
    rows = {row.digest: row for row in read_bodies(folders.root)}
    assert rows.keys() == before
    masked = [row for row in rows.values() if row.masked]
    assert [row.body for row in masked] == [{"role": "user", "content": "my password is [masked:PASSWORD]"}]
    for row in read_calls(folders.root):
        assert row.request in rows
        assert row.answer in rows
    assert kept.masked == {BODIES: 1}
    assert refs(kept)[BODIES][0] == digest_of(folders.root / BODIES)


async def test_a_secret_that_json_spells_otherwise_is_masked(folders: AttemptFolders) -> None:
    spelt = "".join(f"\\u{ord(sign):04x}" for sign in SECRET)
    await call(folders, ask(f'{{"password": "{spelt}"}}'))
    row = json.dumps({"schema_version": "call_body_v1", "digest": "sha256:" + "0" * 64, "form": "json"})
    with (folders.root / BODIES).open("a") as file:
        file.write(f'{row[:-1]}, "body": "{spelt}"}}\n')
    collect(folders, MASKER)
    assert [each.body for each in read_bodies(folders.root)][-1] == "[masked:PASSWORD]"


async def test_a_secret_that_a_stream_cuts_in_two_is_masked_where_the_answer_is_heard(
    folders: AttemptFolders,
) -> None:
    await call(folders, ask("hi", stream=True))
    # The kit's answer comes as "Hello", ", ", "wörld": together they are a secret here.
    kept = collect(folders, make_masker({"GREETING": "Hello, wörld"}))
    (row,) = read_calls(folders.root)
    assert row.answer is not None
    body = {each.digest: each for each in read_bodies(folders.root)}[row.answer]
    assert (body.form, body.masked) == ("told", True)
    heard = hear_answer(row, body)
    assert heard.text == "[masked:GREETING]"
    assert [each.name for each in heard.wanted] != []
    assert kept.masked[BODIES] == 1


async def test_the_line_that_a_crash_left_unfinished_is_not_kept(folders: AttemptFolders) -> None:
    await call(folders, ask("hello"))
    whole = (folders.root / CALLS).read_bytes()
    with (folders.root / CALLS).open("ab") as file:
        file.write(b'{"schema_version":"model_ca')
    kept = collect(folders, make_masker({}))
    assert (folders.root / CALLS).read_bytes() == whole
    assert refs(kept)[CALLS] == (canonical.digest_bytes(whole), len(whole))


def test_files_without_a_line_are_gone_afterwards(folders: AttemptFolders) -> None:
    for name in (CALLS, BODIES):
        (folders.root / name).touch()
    assert collect(folders, MASKER).logs == ()
    assert not (folders.root / CALLS).exists()


def test_a_link_in_their_place_is_not_followed(folders: AttemptFolders, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("not ours\n")
    os.symlink(tmp_path / "outside", folders.root / CALLS)
    kept = collect(folders, MASKER)
    assert kept.logs == ()
    assert CALLS in kept.dropped
    assert (tmp_path / "outside").read_text() == "not ours\n"


async def test_an_attempt_that_was_cut_off_keeps_its_calls_without_secrets(folders: AttemptFolders) -> None:
    await call(folders, ask(f"my password is {SECRET}"))
    found = redact_cut_off(folders.root, MASKER)
    assert SECRET not in (folders.root / BODIES).read_text()
    assert [row.masked for row in read_bodies(folders.root)].count(True) == 1
    assert len(list(read_calls(folders.root))) == 1
    assert found.masked == {BODIES: 1}


async def test_what_an_agent_wrote_among_them_is_not_kept(folders: AttemptFolders) -> None:
    await call(folders, ask("hello"))
    whole = {name: (folders.root / name).read_bytes() for name in (CALLS, BODIES)}
    for name in whole:
        with (folders.root / name).open("ab") as file:
            file.write(b'nonsense\n{"schema_version":"model_call_v1"}\n' + b"[" * 100_000 + b"\n")
    collect(folders, make_masker({}))
    assert {name: (folders.root / name).read_bytes() for name in whole} == whole
