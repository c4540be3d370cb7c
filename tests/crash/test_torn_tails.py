"""Files cut at any of their last bytes: what a crash may leave is mended, what none leaves is refused."""

import asyncio
import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from labrunner.errors import DamagedRun
from labrunner.records.encoding.ids import make_trial_id
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.opening.opening import OpeningReport
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.writing.writer import open_writer
from tests.kit.crash.driver import Job, digest_slot
from tests.kit.crash.driving import Driver
from tests.kit.crash.scenario import RUN_ID, Shape, write_scenario
from tests.kit.made_runs import edit_status
from tests.kit.store.sample import make_status

pytestmark = pytest.mark.crash

SHAPE = Shape(tasks=10, variants=2, replications=3)
LAST_BYTES = 4096
SAMPLE = 25
ROW_FILES = ["predictions", "scores", "trials", "timings"]


def offsets(size: int, *, every: bool) -> list[int]:
    """Where to cut: each of the last bytes, or a few of them with both ends."""
    all_of_them = range(max(0, size - LAST_BYTES), size)
    if every:
        return list(all_of_them)
    return sorted({all_of_them[0], all_of_them[-1], *random.sample(all_of_them, SAMPLE)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """A killed run, everything of it committed, with all bytes that it may need to be put back."""

    paths: RunPaths
    files: dict[str, bytes]

    def file(self, name: str) -> Path:
        found: Path = getattr(self.paths, name)
        return found

    def restore(self) -> None:
        for name, content in self.files.items():
            self.file(name).write_bytes(content)
        shutil.rmtree(self.paths.salvage, ignore_errors=True)
        for suffix in ("-wal", "-shm"):
            self.paths.buffer.with_name(self.paths.buffer.name + suffix).unlink(missing_ok=True)

    def tree(self) -> dict[str, bytes]:
        return {name: self.file(name).read_bytes() for name in self.files if name != "buffer"}


@pytest.fixture(scope="module")
def whole(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Master:
    folder = tmp_path_factory.mktemp("whole")
    experiment = str(write_scenario(folder / "experiment", SHAPE))
    paths = RunPaths(folder / RUN_ID)
    # Each sitting dies at its first summary; the one that has nothing left to run, at the run's last.
    for _ in range(20):
        heard = driver.run(Job(experiment=experiment, runs_dir=str(folder), die_at="summary.written:1"))
        assert heard.code == -9
        if paths.commits.read_bytes().count(b"\n") == SHAPE.planned:
            break
    # A status that counted those lines would tell a journal without them from a torn one.
    edit_status(paths, counts=make_status(SHAPE.planned).counts)
    names = ["run", "status", "commits", *ROW_FILES, "buffer"]
    return Master(paths=paths, files={name: getattr(paths, name).read_bytes() for name in names})


def open_once(paths: RunPaths) -> OpeningReport:
    async def run() -> OpeningReport:
        async with open_writer(paths) as writer:
            return writer.opening

    return asyncio.run(run())


def salvaged(paths: RunPaths) -> dict[str, bytes]:
    return {path.name.split(".jsonl")[0]: path.read_bytes() for path in paths.salvage.glob("*.jsonl.*")}


def cut_journal(whole: Master, *, every: bool) -> None:
    journal = whole.files["commits"]
    for size in offsets(len(journal), every=every):
        whole.restore()
        whole.paths.commits.write_bytes(journal[:size])
        report = open_once(whole.paths)
        kept = whole.paths.commits.read_bytes()
        assert journal.startswith(kept)
        assert kept == journal[: journal.rfind(b"\n", 0, size) + 1]
        assert report.cut_bytes.get("commits.jsonl", 0) == size - len(kept)
        committed = kept.count(b"\n")
        assert [rows.schedule_idx for rows in iter_finished(whole.paths)] == list(range(committed))
        for name, content in salvaged(whole.paths).items():
            before = journal[:size] if name == "commits" else whole.files[name]
            assert before == whole.file(name).read_bytes() + content


def cut_rows_beyond_the_journal(whole: Master, name: str, *, every: bool) -> None:
    """The journal ends before the rows of its last slots: those may be torn anywhere."""
    content, journal = whole.files[name], whole.files["commits"].splitlines(keepends=True)
    committed, found = SHAPE.planned, content
    while committed > 1 and len(content) - len(found) < LAST_BYTES:
        committed -= 5
        found = b"".join(line for line in content.splitlines(keepends=True) if _slot_of(line) < committed)
    short = b"".join(journal[:committed])
    for size in offsets(len(content), every=every):
        if size < len(found):
            continue
        whole.restore()
        whole.paths.commits.write_bytes(short)
        whole.file(name).write_bytes(content[:size])
        report = open_once(whole.paths)
        assert whole.file(name).read_bytes() == found
        assert report.cut_bytes.get(whole.paths.name(whole.file(name)), 0) == size - len(found)
        assert whole.paths.commits.read_bytes() == short
        assert len(list(iter_finished(whole.paths))) == committed


def _slot_of(line: bytes) -> int:
    return int(line.split(b'"schedule_idx":')[1].split(b",")[0].rstrip(b"}\n"))


def cut_committed_rows(whole: Master, name: str, *, every: bool) -> None:
    content = whole.files[name]
    for size in offsets(len(content), every=every):
        whole.restore()
        whole.file(name).write_bytes(content[:size])
        before = whole.tree()
        with pytest.raises(DamagedRun, match="nothing was changed"):
            open_once(whole.paths)
        assert whole.tree() == before
        assert not whole.paths.salvage.exists()
        assert verify(whole.paths).problems != ()


@pytest.mark.usefixtures("unsynced")
def test_a_journal_shorter_than_the_status_counted_is_damage_not_torn(whole: Master) -> None:
    whole.restore()
    edit_status(whole.paths, counts=make_status(SHAPE.planned, committed=SHAPE.planned - 2).counts)
    lines = whole.files["commits"].splitlines(keepends=True)
    whole.paths.commits.write_bytes(b"".join(lines[:-2]))
    rows = {whole.paths.name(whole.file(name)) for name in ROW_FILES}
    assert open_once(whole.paths).cut_bytes.keys() == rows

    whole.restore()
    edit_status(whole.paths, counts=make_status(SHAPE.planned, committed=SHAPE.planned - 2).counts)
    whole.paths.commits.write_bytes(b"".join(lines[:-3]))
    before = whole.tree()
    with pytest.raises(DamagedRun, match="the journal has lost lines") as refused:
        open_once(whole.paths)
    assert f"{SHAPE.planned - 3} slots are committed" in str(refused.value)
    assert whole.tree() == before


@pytest.mark.usefixtures("unsynced")
def test_a_journal_cut_at_any_byte_keeps_its_whole_lines(whole: Master) -> None:
    cut_journal(whole, every=False)


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("name", ROW_FILES)
def test_rows_beyond_the_journal_are_cut_back_wherever_they_are_torn(whole: Master, name: str) -> None:
    cut_rows_beyond_the_journal(whole, name, every=False)


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("name", ROW_FILES)
def test_committed_rows_that_are_cut_are_damage_and_nothing_is_changed(whole: Master, name: str) -> None:
    cut_committed_rows(whole, name, every=False)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("unsynced")
def test_a_journal_cut_at_each_of_its_last_bytes(whole: Master) -> None:
    cut_journal(whole, every=True)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("name", ROW_FILES)
def test_rows_cut_at_each_of_their_last_bytes(whole: Master, name: str) -> None:
    cut_rows_beyond_the_journal(whole, name, every=True)
    cut_committed_rows(whole, name, every=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A killed run with nothing committed and everything but slot 0 in the buffer's log."""

    paths: RunPaths
    finished: dict[int, str]
    log: bytes
    database: bytes
    known: bytes
    """What `buffered.jsonl` says."""


@pytest.fixture(scope="module")
def waiting(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Waiting:
    folder = tmp_path_factory.mktemp("waiting")
    experiment = str(write_scenario(folder / "experiment", SHAPE))
    first = make_trial_id("v0", "t0", 0)
    driver.start(Job(experiment=experiment, runs_dir=str(folder), slow_trial=first))
    driver.wait_finished(SHAPE.planned - 1)
    heard, paths = driver.kill(), RunPaths(folder / RUN_ID)
    return Waiting(
        paths=paths,
        finished=heard.finished,
        log=paths.buffer.with_name("buffer.sqlite-wal").read_bytes(),
        database=paths.buffer.read_bytes(),
        known=paths.buffered.read_bytes(),
    )


def assert_told(report: OpeningReport, waiting: Waiting, lost: frozenset[int]) -> None:
    """What a cut log has lost is told, by name: nothing else can have cut what was synced."""
    assert (report.lost_buffer is None) == (not lost)
    rows = [json.loads(line) for line in waiting.known.splitlines()]
    named = {row["schedule_idx"]: row["trial_id"] for row in rows}
    assert all(named[idx] in str(report.lost_buffer) for idx in lost)


def cut_log(waiting: Waiting, *, every: bool) -> None:
    log = waiting.paths.buffer.with_name("buffer.sqlite-wal")
    for size in offsets(len(waiting.log), every=every):
        waiting.paths.buffer.write_bytes(waiting.database)
        log.write_bytes(waiting.log[:size])
        waiting.paths.buffered.write_bytes(waiting.known)
        log.with_name("buffer.sqlite-shm").unlink(missing_ok=True)
        report = open_once(waiting.paths)
        present = {rows.schedule_idx: digest_slot(rows) for rows in iter_finished(waiting.paths)}
        assert_told(report, waiting, frozenset(waiting.finished.keys() - present.keys()))
        assert report.dropped_slots == ()
        assert present.items() <= waiting.finished.items()
        # What was synced before the torn write is whole: a commit of the log is a few pages at most.
        assert len(present) > len(waiting.finished) // 2


@pytest.mark.usefixtures("unsynced")
def test_a_buffer_whose_log_is_torn_keeps_what_lies_before(waiting: Waiting) -> None:
    cut_log(waiting, every=False)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("unsynced")
def test_a_buffer_whose_log_is_cut_at_each_of_its_last_bytes(waiting: Waiting) -> None:
    cut_log(waiting, every=True)
