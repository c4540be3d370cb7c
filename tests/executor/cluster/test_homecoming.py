"""An attempt's files come home whole, or the attempt has failed."""

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from labrunner.errors import SandboxFailed
from labrunner.executor.cluster import homecoming
from labrunner.executor.cluster.homecoming import Before, Homecoming, coming_home
from labrunner.executor.cluster.parcels import digest, pack
from labrunner.executor.cluster.rayport import NodeLost
from labrunner.files.strangers.masking import make_masker
from labrunner.gateway.process.refilling import sum_run
from labrunner.gateway.recording.awaycalls import AWAY
from labrunner.gateway.recording.calljournal import open_journal
from labrunner.records.cause import Cause
from labrunner.records.completion import AttemptTiming, Completion, Failed, FileRef
from tests.kit.gateway.callrows import make_row

NOTHING_SECRET = make_masker({})
CONTENT = b'{"verdict": "pass"}'


def ref(content: bytes = CONTENT, path: str = "out/score.json") -> FileRef:
    return FileRef(path=path, digest=f"sha256:{hashlib.sha256(content).hexdigest()}", size=len(content))


def completion(*files: FileRef) -> Completion:
    timing = AttemptTiming(attempt=1, started_at="", ended_at="", host="", sandbox="process")
    end = Failed(cause=Cause.SANDBOX, reason="x", message="x")
    return Completion(
        token="t", schedule_idx=0, trial_id="t1", attempt=1, end=end, files=files, timing=timing
    )


@pytest.fixture
def pieces(tmp_path: Path) -> list[bytes]:
    (tmp_path / "node" / "out").mkdir(parents=True)
    (tmp_path / "node" / "out" / "score.json").write_bytes(CONTENT)
    return list(pack(tmp_path / "node"))


def come(
    root: Path,
    pieces: list[bytes],
    done: Completion,
    before: Before = "aside",
    lent: Sequence[str] = (),
) -> None:
    home = Homecoming(root, before, NOTHING_SECRET, lent)
    try:
        for piece in pieces:
            home.take(piece, digest(piece))
        home.finish(done)
    finally:
        home.close()


@pytest.mark.parametrize(("before", "left"), [("aside", ["1", "1.cut-1"]), ("replaced", ["1"])])
def test_what_lay_there_gives_way(
    tmp_path: Path, pieces: list[bytes], before: Before, left: list[str]
) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    root.mkdir(parents=True)
    (root / "old").touch()
    come(root, pieces, completion(ref()), before)
    assert (root / "out" / "score.json").read_bytes() == CONTENT
    assert not (root / "old").exists()
    assert sorted(path.name for path in root.parent.iterdir()) == left


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (ref(b"another"), "is not what the node says of it"),
        (ref(path="out/none.json"), "did not come from the node"),
    ],
)
def test_a_file_that_is_not_what_is_said_of_it_is_refused(
    tmp_path: Path, pieces: list[bytes], told: FileRef, why: str
) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    with pytest.raises(SandboxFailed, match=why):
        come(root, pieces, completion(told))


def test_a_piece_that_was_changed_on_the_way_is_refused(tmp_path: Path, pieces: list[bytes]) -> None:
    home = Homecoming(tmp_path / "trials" / "t1" / "1", "aside", NOTHING_SECRET)
    with pytest.raises(SandboxFailed, match="is not what the node sent"):
        home.take(pieces[0] + b" ", digest(pieces[0]))
    home.close()


def test_what_was_sent_out_stays_until_its_successor_is_whole(tmp_path: Path, pieces: list[bytes]) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    (root / "workspace").mkdir(parents=True)
    with pytest.raises(SandboxFailed):
        come(root, pieces, completion(ref(b"another")), "replaced")
    assert (root / "workspace").is_dir()


async def come_in_vain(root: Path, pieces: list[bytes], before: Before) -> None:
    async with coming_home(root, before, NOTHING_SECRET) as home:
        home.take(pieces[0], digest(pieces[0]))
        assert len(list(root.parent.iterdir())) == (2 if before == "replaced" else 1)
        raise NodeLost("killed")


async def test_what_comes_in_vain_is_not_left_beside_what_is_still_needed(
    tmp_path: Path, pieces: list[bytes]
) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    (root / "workspace").mkdir(parents=True)
    with pytest.raises(NodeLost):
        await come_in_vain(root, pieces, "replaced")
    assert list(root.parent.iterdir()) == [root]
    assert (root / "workspace").is_dir()


async def test_what_came_of_an_attempt_that_was_cut_off_stays_as_evidence(
    tmp_path: Path, pieces: list[bytes]
) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    with pytest.raises(NodeLost):
        await come_in_vain(root, pieces, "aside")
    assert root.is_dir()


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(CONTENT)
    (tmp_path / "node" / "out").mkdir(parents=True)
    (tmp_path / "node" / "out" / "score.json").symlink_to(tmp_path / "secret")
    sent = list(pack(tmp_path / "node"))
    with pytest.raises(SandboxFailed, match="did not come from the node"):
        come(tmp_path / "trials" / "t1" / "1", sent, completion(ref()))


def test_nothing_told_is_an_empty_folder(tmp_path: Path) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    come(root, [], msgspec.structs.replace(completion(), token="u"))
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(("before", "names"), [("aside", 2), ("replaced", 1)])
@pytest.mark.parametrize("comes_twice", [False, True])
def test_calls_that_come_home_are_not_paid_here_and_those_that_were_stay_so(
    tmp_path: Path, pieces: list[bytes], before: Before, names: int, *, comes_twice: bool
) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    root.mkdir(parents=True)
    spend(root, 1.0)
    spend(tmp_path / "node", 5.0)
    sent = list(pack(tmp_path / "node"))
    if comes_twice:  # the first time in vain
        home = Homecoming(root, before, NOTHING_SECRET, ["cost_usd"])
        home.take(sent[0], digest(sent[0]))
        home.discard()
        before = "replaced"
    come(root, sent, completion(ref()), before, ["cost_usd"])
    assert sum_run(tmp_path / "trials").cost_usd == Decimal("1.0")
    assert len(list(root.parent.iterdir())) == names
    assert (root / AWAY).exists()


def spend(folder: Path, usd: float) -> None:
    """Have a call in the calls of an attempt."""
    journal = open_journal(folder)
    journal.write(make_row(call_id=str(usd), cost_usd=usd), [])
    journal.close()


def test_a_note_of_who_paid_goes_with_no_folder(tmp_path: Path) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    come(root, [], completion(), "aside", ["cost_usd"])
    come(root, list(pack(root, {AWAY})), completion(), "replaced", ["cost_usd"])
    assert [path.name for path in root.iterdir()] == [AWAY]


def test_a_try_that_is_set_aside_is_searched_for_secrets(tmp_path: Path, pieces: list[bytes]) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    (root / "logs").mkdir(parents=True)
    (root / "logs" / "agent.stdout").write_text("the key is sk-very-secret\n")
    home = Homecoming(root, "aside", make_masker({"KEY": "sk-very-secret"}))
    for piece in pieces:
        home.take(piece, digest(piece))
    home.finish(completion(ref()))
    assert "sk-very-secret" not in (root.with_name("1.cut-1") / "logs" / "agent.stdout").read_text()


@pytest.mark.parametrize("can_exchange", [True, False])
def test_whoever_is_killed_while_a_folder_is_replaced_leaves_one_that_is_whole(
    tmp_path: Path, pieces: list[bytes], monkeypatch: pytest.MonkeyPatch, *, can_exchange: bool
) -> None:
    root = tmp_path / "trials" / "t1" / "1"
    (root / "workspace").mkdir(parents=True)
    home = Homecoming(root, "replaced", NOTHING_SECRET)
    for piece in pieces:
        home.take(piece, digest(piece))

    def die(folder: Path) -> None:
        raise KeyboardInterrupt(folder)

    # The world: a process that is killed in the midst of a removal.
    monkeypatch.setattr(homecoming, "remove_tree", die)
    if not can_exchange:
        # The world: a file system that can't.
        monkeypatch.setattr(homecoming, "exchange", lambda one, other: False)
    with pytest.raises(KeyboardInterrupt):
        home.finish(completion(ref()))
    assert (root / "out" / "score.json").read_bytes() == CONTENT
