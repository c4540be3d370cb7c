"""Scores as records hold them: numbers of any library, texts of any length."""

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from labrunner.errors import InputError
from labrunner.log import EvalLog, read_eval_log
from labrunner.solve.authoring.scorer import scorer
from labrunner.solve.scoring.metrics import mean
from labrunner.solve.values.messages import ChatMessageAssistant
from labrunner.solve.values.sample import Sample, Target
from labrunner.solve.values.score import Score, value_to_float
from labrunner.solve.values.state import TaskState
from tests.kit.cli.calling import lab
from tests.kit.solve.authoring import answering, make_task, retry, run, samples, write_task


def scoring(value: Any, **fields: Any) -> Any:
    """A scorer that always gives this."""

    @scorer(metrics=[mean()])
    def given() -> Any:
        async def score(state: TaskState, target: Target) -> Score:
            return Score(value, **fields)

        return score

    return given()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.int64(1), 1),
        (np.bool_(True), True),
        (np.str_("C"), "C"),
        (np.array(0.25), 0.25),
        (Decimal("0.5"), 0.5),
        ({"a": np.float32(0.5), "b": np.int8(1)}, {"a": 0.5, "b": 1}),
        ([np.float64(0.0), np.float64(1.0)], [0.0, 1.0]),
        (np.array([0.0, 1.0]), [0.0, 1.0]),
    ],
)
def test_numbers_of_other_libraries_are_scores(tmp_path: Path, value: Any, wanted: Any) -> None:
    log = run(make_task(samples("a"), scorer=scoring(value)), tmp_path)
    assert log.status == "success", log.error
    score = log.samples[0].score
    assert score is not None
    assert score.value == wanted
    assert type(score.value) is type(wanted)


def test_numbers_of_other_libraries_are_answers_and_metadata(tmp_path: Path) -> None:
    metadata = {"loss": np.float32(0.5), "many": np.array([1, 2]), "seen": np.datetime64("2026-01-02").item()}
    judge = scoring(1.0, answer=np.int64(7), explanation=np.float64(0.5), metadata=metadata)
    log = run(make_task(samples("a"), scorer=judge), tmp_path)
    assert log.status == "success", log.error
    assert log.samples[0].score == Score(1.0, "7", "0.5", {"loss": 0.5, "many": [1, 2], "seen": "2026-01-02"})
    assert [event["metadata"]["loss"] for event in log.samples[0].events if event["event"] == "score"] == [
        0.5
    ]


@pytest.mark.parametrize(
    ("given", "reason", "said"),
    [
        ({"value": {"form": object()}}, "score_not_number", "scorer given, form: a score that is a object"),
        ({"value": [1.0, None]}, "score_not_number", "scorer given, value 1: a score that is a NoneType"),
        ({"value": np.float64("nan")}, "score_not_finite", "scorer given gave nan, which is no score"),
        ({"value": 1, "answer": ["a"]}, "answer_not_text", "scorer given gave a list as its answer"),
        (
            {"value": 1, "explanation": {}},
            "explanation_not_text",
            "scorer given gave a dict as its explanation",
        ),
    ],
)
def test_what_is_no_score_is_blamed_on_the_scorer_by_name(
    tmp_path: Path, given: dict[str, Any], reason: str, said: str
) -> None:
    log = run(make_task(samples("a"), scorer=scoring(**given)), tmp_path)
    error = log.samples[0].error
    assert error is not None
    assert (error.cause, error.reason) == ("solver", reason)
    assert said in error.message


@pytest.mark.parametrize(
    ("said", "wanted"), [(np.float64(0.5), "0.5"), (np.int64(7), "7"), (np.str_("x"), "x"), (3, "3")]
)
def test_a_number_that_a_solver_answers_with_is_written_out(tmp_path: Path, said: Any, wanted: str) -> None:
    async def count(state: TaskState) -> TaskState:
        state.output.completion = said
        state.messages.append(ChatMessageAssistant(said))
        return state

    log = run(make_task(samples("a", target=wanted), solver=count), tmp_path)
    assert log.status == "success", log.error
    assert log.samples[0].output.completion == wanted
    assert log.samples[0].messages[-1].content == wanted
    assert log.results.metrics["accuracy"].value == 1.0


def test_an_answer_that_is_no_text_is_blamed_on_the_solver(tmp_path: Path) -> None:
    async def answer(state: TaskState) -> TaskState:
        words: Any = ["a", "b"]
        state.output.completion = words
        return state

    error = run(make_task(samples("a"), solver=answer), tmp_path).samples[0].error
    assert error is not None
    assert error.cause == "solver"
    assert "a message's content must be text, found list" in error.message


def test_value_to_float_takes_any_number() -> None:
    half: Any = np.float32(0.5)
    assert value_to_float(half) == 0.5
    assert math.isnan(value_to_float(np.float64("nan")))


def test_numbers_of_other_libraries_are_metadata_of_samples(tmp_path: Path) -> None:
    log = run(make_task([Sample(input="a", target="a", metadata={"n": np.int64(3)})]), tmp_path)
    assert log.samples[0].metadata == {"n": 3}


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"years": {2024: "x"}}, "years.2024: a key must be text, found the int 2024"),
        ({"a": [{"b": np.datetime64("2026-01-02").item()}]}, "a.0.b: a date is not JSON"),
        ({"a": float("nan")}, "a: nan is no number in JSON"),
    ],
)
def test_metadata_that_is_not_json_is_refused_with_its_key(
    tmp_path: Path, metadata: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=f"metadata of sample 1 must be JSON.*{said}"):
        run(make_task([Sample(input="a", metadata=metadata)]), tmp_path)
    with pytest.raises(InputError, match=f"metadata of task task must be JSON.*{said}"):
        run(make_task(samples("a"), metadata=metadata), tmp_path)


LONG = "".join(f"line {number}: ä\n" for number in range(8000)).strip()
NOTES = {"notes": ["n" * 5000]}


def test_long_answers_are_whole_in_logs_and_exports(tmp_path: Path) -> None:
    judge = scoring(1.0, answer=LONG, explanation=LONG[::-1], metadata=NOTES)
    log = run(make_task(samples("a"), scorer=judge), tmp_path, answering(lambda _: LONG))

    assert _is_whole(log)
    assert log.samples[0].output.completion == LONG
    rows = {path.name: path.read_bytes() for path in Path(log.location).glob("**/*s.jsonl")}
    assert {"trials.jsonl", "scores.jsonl", "predictions.jsonl"} <= set(rows)
    assert all(len(data) < 64 * 1024 for data in rows.values())
    named = json.loads(rows["trials.jsonl"])["files"]
    assert [ref["path"] for ref in named] == ["scores.json"]
    assert lab("verify", log.location, cwd=tmp_path).code == 0

    exported = lab("export", log.location, "--to", "inspect", "-o", tmp_path / "x.eval", cwd=tmp_path)
    assert exported.code == 0, exported.err
    with ZipFile(tmp_path / "x.eval") as archive:
        sample = json.loads(archive.read(next(name for name in archive.namelist() if "samples/" in name)))
    told = sample["scores"]["given"]
    assert (told["answer"], told["explanation"]) == (LONG, LONG[::-1])
    assert told["metadata"]["notes"] == NOTES["notes"]
    assert sample["output"]["completion"] == LONG


def test_a_long_answer_whose_file_changed_is_told_and_not_taken_for_whole(tmp_path: Path) -> None:
    log = run(make_task(samples("a"), scorer=scoring(1.0, answer=LONG)), tmp_path)
    (path,) = Path(log.location).glob("trials/*/1/scores.json")
    path.write_bytes(path.read_bytes().replace(b"line 4000", b"line 4OOO"))

    score = read_eval_log(log.location).samples[0].score
    checked = lab("verify", log.location, cwd=tmp_path)

    assert score is not None
    assert "characters left out here" in str(score.answer)
    assert checked.code != 0
    assert "scores.json" in checked.out + checked.err


def test_a_retry_takes_long_answers_over(tmp_path: Path) -> None:
    body = f"""
LONG = "".join(f"line {{number}}: ä\\n" for number in range(8000)).strip()
@scorer(metrics=[accuracy()])
def given():
    async def score(state, target):
        return Score(1.0, answer=LONG, explanation=LONG[::-1], metadata={NOTES!r})
    return score

@task
def long():
    return Task(dataset=[Sample(input="a", target="a")], scorer=given())
"""
    log = run(str(write_task(tmp_path, body)), tmp_path)
    again = retry(log)
    assert again.location != log.location
    assert _is_whole(again)


def test_short_answers_leave_no_file_of_their_own(tmp_path: Path) -> None:
    log = run(make_task(samples("a"), scorer=scoring(1.0, answer="x" * 4000)), tmp_path, answering(str))
    assert list(Path(log.location).glob("trials/*/1/scores.json")) == []


def _is_whole(log: EvalLog) -> bool:
    return log.samples[0].score == Score(1.0, LONG, LONG[::-1], dict(NOTES))
