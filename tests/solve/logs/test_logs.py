import asyncio
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.log import EvalLogInfo, list_eval_logs, read_eval_log
from labrunner.query.database import ask
from labrunner.records.facts.invalidation import InvalidationRow
from labrunner.solve.authoring.solver import Generate
from labrunner.solve.values.sample import Sample
from labrunner.solve.values.state import TaskState
from labrunner.store.checking.invalidations import add_invalidations
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from tests.kit.solve.authoring import make_task, run, samples


def test_logs_are_listed_with_the_newest_first_and_unreadable_ones_named(tmp_path: Path) -> None:
    first = run(make_task(name="first"), tmp_path, run_id="a-first")
    second = run(make_task(name="second"), tmp_path, run_id="b-second")
    (tmp_path / "runs/broken").mkdir()
    logs = list_eval_logs(tmp_path / "runs")
    assert {Path(log.name).name: log.status for log in logs} == {
        "a-first": "success",
        "b-second": "success",
        "broken": "unreadable",
    }
    chosen = list_eval_logs(tmp_path / "runs", filter=lambda log: log.task == "first")
    assert [log.name for log in chosen] == [first.location]
    assert isinstance(chosen[0], EvalLogInfo)
    assert chosen[0].read().eval == first.eval
    assert second.eval.task == "second"


def test_a_log_is_read_by_path_object_and_info(tmp_path: Path) -> None:
    log = run(make_task(), tmp_path)
    for given in (log.location, Path(log.location), log):
        assert read_eval_log(given).eval == log.eval
    assert read_eval_log(log.location, header_only=True).samples[0].id == "1"


def test_a_log_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no run fits 'nothing'"):
        read_eval_log("nothing")


def test_samples_are_read_one_at_a_time_from_either_end(tmp_path: Path) -> None:
    log = run(make_task(samples(*"abcdef")), tmp_path)
    assert len(log.samples) == 6
    assert (log.samples[0].input, log.samples[-1].input) == ("a", "f")
    assert [sample.input for sample in log.samples[1:3]] == ["b", "c"]
    with pytest.raises(IndexError):
        _ = log.samples[6]


def test_what_a_sample_was_made_of_comes_back(tmp_path: Path) -> None:
    sample = Sample(input="q", target=["a", "b"], choices=["x"], id="s", metadata={"k": [1]}, group="g")
    found = run(make_task([sample]), tmp_path).samples[0]
    assert (found.id, found.target, found.choices, found.metadata) == ("s", ["a", "b"], ["x"], {"k": [1]})


def test_transcripts_are_evidence_that_verify_checks(tmp_path: Path) -> None:
    log = run(make_task(samples("a")), tmp_path)
    paths = RunPaths(Path(log.location))
    assert verify(paths).is_sound
    transcript = next(paths.trial_folders.glob("*/1/transcript.jsonl"))
    transcript.write_bytes(transcript.read_bytes().replace(b'"a"', b'"b"'))
    assert not verify(paths).is_sound


def test_samples_that_an_error_cut_short_are_in_the_log(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def answer(state: TaskState, generate: Generate) -> TaskState:
        state = await generate(state)
        if state.input_text == "slow":
            began.set()
            await asyncio.sleep(600)
        await began.wait()
        raise ValueError("broken")

    log = run(make_task(samples("slow", "bad"), solver=answer), tmp_path, grace=0)

    assert log.status == "error"
    assert [(each.input, each.error and each.error.reason) for each in log.samples] == [
        ("slow", "cancelled"),
        ("bad", "ValueError"),
    ]
    assert [message.content for message in log.samples[0].messages] == ["slow", "slow"]
    assert len(log.samples) == 2


def test_transcripts_of_every_attempt_are_events_that_queries_find(tmp_path: Path) -> None:
    failed: list[str] = []

    async def stumble(state: TaskState) -> TaskState:
        if not failed:
            failed.append(state.sample_id)
            raise ValueError("stumbled")
        return state

    log = run(make_task(samples("a"), solver=[stumble], retry_on_error=1), tmp_path)
    told = [
        (attempt, event["seq"], event["event"])
        for attempt in (1, 2)
        for event in log.samples[0].attempt_events(attempt)
    ]
    assert {attempt for attempt, *_ in told} == {1, 2}
    with ask([RunPaths(Path(log.location))], "select attempt, seq, type from events order by all") as answer:
        assert list(answer.rows()) == told


def test_invalidated_samples_are_in_no_figure(tmp_path: Path) -> None:
    log = run(make_task([Sample(input="x", target="x"), Sample(input="y", target="z")]), tmp_path)
    assert log.results.metrics["accuracy"].value == 0.5
    mark = InvalidationRow(
        schema_version="invalidation_v1",
        trial_id=log.samples[1].trial_id,
        schedule_idx=1,
        reason="wrong",
        who="ann",
        at="2026-01-01T00:00:00Z",
    )
    add_invalidations(RunPaths(Path(log.location)), [mark])
    results = read_eval_log(log.location).results
    assert (results.metrics["accuracy"].value, results.completed_samples, results.total_samples) == (
        1.0,
        1,
        2,
    )
