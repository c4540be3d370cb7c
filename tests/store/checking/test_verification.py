import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.records.rows import SlotRows
from labrunner.records.seals import seal, seal_summary
from labrunner.records.summary import SummaryRecord, Totals
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_run
from labrunner.store.writing.writer import open_writer
from tests.kit.made_runs import edit_status
from tests.kit.store.sample import BENCHMARK, make_rows, make_run, make_status, trial_id_of

PLANNED = 5
RESULT = b'{"answer": 42}'
LOG = b"some output\n"


def ref(path: str, content: bytes) -> FileRef:
    return FileRef(path=path, digest=canonical.digest_bytes(content), size=len(content))


def rows_with_files(idx: int) -> SlotRows:
    rows = make_rows(idx)
    trial = msgspec.structs.replace(rows.trial, files=(ref("out/result.json", RESULT),))
    timed = msgspec.structs.replace(rows.timing.attempts[0], logs=(ref("logs/agent.stdout", LOG),))
    timing = msgspec.structs.replace(rows.timing, attempts=(timed,))
    return msgspec.structs.replace(rows, trial=trial, timing=timing)


def attempt_folder(paths: RunPaths, idx: int) -> Path:
    return paths.attempt(trial_id_of(idx), 1)


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run that went to its end, with files."""
    paths = make_run(tmp_path, PLANNED)

    async def run() -> None:
        async with open_writer(paths) as writer:
            for idx in range(PLANNED):
                for name, content in (("out/result.json", RESULT), ("logs/agent.stdout", LOG)):
                    path = attempt_folder(paths, idx) / name
                    path.parent.mkdir(parents=True)
                    path.write_bytes(content)
                await writer.finish(rows_with_files(idx), token="t")
            await writer.write_summary(make_summary(writer.chain))
            await writer.write_status(
                make_status(PLANNED, "success", committed=PLANNED, chain=writer.chain),
            )

    asyncio.run(run())
    return paths


def make_summary(chain: str) -> bytes:
    summary = SummaryRecord(
        schema_version="benchmark_summary_v1",
        run_id="run-1",
        benchmark=BENCHMARK,
        totals=Totals(trials=PLANNED, passed=0, failed=0, missing=0, errors=0),
        variants=(),
        ext={"basis": {"chain": chain}},
    )
    return canonical.encode_line(seal_summary(summary))


def change(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def test_a_run_that_went_to_its_end_is_sound_and_complete(paths: RunPaths) -> None:
    report = verify(paths)
    assert (report.problems, report.notes) == ((), ())
    assert report.is_sound
    assert report.is_complete
    assert report.state == "success"
    assert report.chain == msgspec.json.decode(paths.status.read_bytes())["chain"]


CASES: dict[str, tuple[Callable[[RunPaths], object], str]] = {
    "task changed": (lambda p: change(p.tasks, b"k", b"j"), r"tasks\.jsonl: its digest is"),
    "slot taken out of the schedule": (
        lambda p: p.schedule.write_bytes(b"".join(p.schedule.read_bytes().splitlines(True)[1:])),
        r"schedule\.jsonl: its digest is",
    ),
    "verdict turned": (lambda p: change(p.scores, b"fail", b"pass"), r"trials\.jsonl:1: the rows of slot 0"),
    "metric in a trial row": (
        lambda p: change(p.trials, b'"primary_metric_value":3', b'"primary_metric_value":9'),
        r"trials\.jsonl:4: the rows of slot 3",
    ),
    "row against its schema": (
        lambda p: change(p.trials, b'"graded"', b'"greedy"'),
        r"trials\.jsonl:1: not a trial_record_v1: attempts\[0\]\.outcome",
    ),
    "row of another run": (
        lambda p: change(p.scores, b"run-1", b"run-2"),
        "the rows of slot 0 .* have digest None",
    ),
    "row with one more space": (
        lambda p: change(p.scores, b'"verdict":"fail"}', b'"verdict":"fail" }'),
        r"commits\.jsonl:1: benchmark/scores\.jsonl: bytes 0 to 448 should hold 1 rows of slot 0",
    ),
    "journal line changed": (
        lambda p: change(p.commits, b'"attempt":1', b'"attempt":2'),
        r"commits\.jsonl:1: its seal is",
    ),
    "journal line taken out": (
        lambda p: p.commits.write_bytes(b"".join(p.commits.read_bytes().splitlines(True)[1:])),
        r"commits\.jsonl:1: slot 1, not 0",
    ),
    "journal line doubled": (
        lambda p: p.commits.write_bytes(
            p.commits.read_bytes() + p.commits.read_bytes().splitlines(keepends=True)[-1]
        ),
        r"commits\.jsonl:6: slot 4, not 5",
    ),
    "journal cut in an ended run": (
        lambda p: p.commits.write_bytes(p.commits.read_bytes()[:-5]),
        r"commits\.jsonl: ends with \d+ bytes of an unfinished line",
    ),
    "journal line is garbage": (
        lambda p: p.commits.write_bytes(b"garbage\n"),
        r"commits\.jsonl: ends with 8 bytes of an unfinished line",
    ),
    "rows cut": (
        lambda p: p.trials.write_bytes(p.trials.read_bytes()[:-5]),
        r"should hold 1 rows of slot 4, and do not",
    ),
    "bytes after the last row": (
        lambda p: p.scores.write_bytes(p.scores.read_bytes() + b"x"),
        r"benchmark/scores\.jsonl: 1 bytes after the last committed row",
    ),
    "timings swapped": (
        lambda p: p.timings.write_bytes(b"".join(reversed(p.timings.read_bytes().splitlines(True)))),
        r"facts/timings\.jsonl:1: belongs to .* 4, .*, not to .* 0, ",
    ),
    "timing gone": (
        lambda p: p.timings.write_bytes(b"".join(p.timings.read_bytes().splitlines(True)[:-1])),
        r"facts/timings\.jsonl:5: is missing",
    ),
    "result changed": (
        lambda p: (attempt_folder(p, 2) / "out/result.json").write_bytes(RESULT.replace(b"42", b"43")),
        r"out/result\.json: its digest is",
    ),
    "result grown": (
        lambda p: (attempt_folder(p, 2) / "out/result.json").write_bytes(RESULT * 2),
        r"out/result\.json: 28 bytes, but its row says 14",
    ),
    "result gone": (
        lambda p: (attempt_folder(p, 2) / "out/result.json").unlink(),
        r"out/result\.json: the file is gone",
    ),
    "log gone though logs are kept": (
        lambda p: (attempt_folder(p, 2) / "logs/agent.stdout").unlink(),
        r"logs/agent\.stdout: the file is gone",
    ),
    "summary is none": (
        lambda p: p.summary.write_bytes(b"{}"),
        r"benchmark/summary\.json: not a benchmark_summary_v1",
    ),
    "status says another chain": (
        lambda p: edit_status(p, chain="sha256:0"),
        r"status\.json: its chain is",
    ),
    "status says another count": (
        lambda p: edit_status(p, counts=make_status(PLANNED, committed=4).counts),
        r"status\.json: 4 slots committed, but the journal has 5",
    ),
    "status edited": (
        lambda p: change(p.status, b'"passed":0', b'"passed":5'),
        r"status\.json: not as it was written",
    ),
    "status of another run": (
        lambda p: edit_status(p, run_id="run-2"),
        r"status\.json: belongs to run run-2",
    ),
    "summary edited": (
        lambda p: change(p.summary, b'"trials":5', b'"trials":6'),
        r"benchmark/summary\.json: not as it was written",
    ),
    "summary of another state": (
        lambda p: p.summary.write_bytes(make_summary("sha256:0")),
        r"benchmark/summary\.json: made from a journal that ended with sha256:0",
    ),
    "run record edited": (
        lambda p: change(p.run, b'"env_file":null', b'"env_file":"x"'),
        r"run\.json: not as it was written",
    ),
    "journal with other line ends": (
        lambda p: p.commits.write_bytes(p.commits.read_bytes().replace(b"\n", b"\r\n")),
        r"commits\.jsonl:1: is damaged",
    ),
    "journal with spaces": (
        lambda p: change(p.commits, b'"attempt":1', b'"attempt": 1'),
        r"commits\.jsonl:1: not in the form",
    ),
    "journal cut": (
        lambda p: p.commits.write_bytes(b"".join(p.commits.read_bytes().splitlines(True)[:2])),
        r"commits\.jsonl: 2 slots are committed, but status\.json counted 5",
    ),
    "crash note edited": (
        lambda p: p.crash(1).write_bytes(b"{}"),
        r"crash-1\.json: ",
    ),
    "crash note gone": (
        lambda p: p.crash(2).write_bytes(b"{}"),
        r"crash-1\.json: the file is gone: crash-2\.json comes after it",
    ),
    "timing edited": (
        lambda p: change(p.timings, b'"host":"h"', b'"host":"x"'),
        r"facts/timings\.jsonl:1: is not as it was written",
    ),
    "line of buffered results edited": (
        lambda p: p.buffered.write_bytes(b"nonsense\n"),
        r"buffered\.jsonl:1: not a line of this run",
    ),
    "status is none": (lambda p: p.status.write_bytes(b"{"), r"status\.json: .*not a status_v1"),
    "run record is none": (lambda p: p.run.write_bytes(b"{"), r"not a run_v1"),
    "journal gone": (lambda p: p.commits.unlink(), r"commits\.jsonl: "),
    "buffer is none": (lambda p: p.buffer.write_bytes(b"x" * 5000), r"buffer\.sqlite: "),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_was_changed_is_named(paths: RunPaths, name: str) -> None:
    damage, message = CASES[name]
    damage(paths)
    report = verify(paths)
    assert not report.is_sound
    text = "\n".join(map(str, report.problems))
    assert re.search(message, text), text


def test_a_symlink_in_place_of_a_file_is_found(paths: RunPaths) -> None:
    path = attempt_folder(paths, 0) / "out/result.json"
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))
    assert [problem.what for problem in verify(paths).problems] == ["not a plain file"]


def test_a_summary_that_can_not_be_read_is_named(paths: RunPaths) -> None:
    paths.summary.unlink(missing_ok=True)
    paths.summary.mkdir()
    assert any(problem.file == paths.name(paths.summary) for problem in verify(paths).problems)


def test_logs_that_policy_drops_may_be_gone(tmp_path: Path, paths: RunPaths) -> None:
    (attempt_folder(paths, 2) / "logs/agent.stdout").unlink()
    record = read_run(paths)
    policy = {
        **record.experiment["policy"],
        "keep": {**record.experiment["policy"]["keep"], "logs": "failed"},
    }
    other = msgspec.structs.replace(record, experiment={**record.experiment, "policy": policy})
    paths.run.write_bytes(canonical.encode_line(seal(other)))
    assert verify(paths).problems == ()


def test_an_unfinished_run_is_sound_and_not_complete(tmp_path: Path) -> None:
    paths = make_run(tmp_path, PLANNED)

    async def run() -> None:
        async with open_writer(paths) as writer:
            await writer.write_status(make_status(PLANNED))
            for idx in (0, 1, 3):
                await writer.finish(make_rows(idx), token="t")

    asyncio.run(run())
    with paths.commits.open("ab") as file:
        file.write(b'{"attem')
    report = verify(paths)
    assert report.problems == ()
    assert not report.is_complete
    assert (report.state, report.committed, report.buffered) == ("crashed", 2, 1)
    assert report.notes == (
        "commits.jsonl: ends with 7 bytes of an unfinished line",
        "1 finished slots wait in the buffer for one before them",
    )


async def test_a_live_run_is_sound(tmp_path: Path) -> None:
    paths = make_run(tmp_path, PLANNED)
    async with open_writer(paths) as writer:
        await writer.write_status(make_status(PLANNED))
        await writer.finish(make_rows(0), token="t")
        report = await asyncio.to_thread(verify, paths)
    assert (report.problems, report.state, report.committed) == ((), "started", 1)
