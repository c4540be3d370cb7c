"""The logs are opened by the real package, and compared with the run field by field."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from labrunner.interop.registry import EXPORTERS, export, find_exporter
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import make_trial_id
from labrunner.runner.reports.lookup import RunInFull, read_in_full
from labrunner.runner.resume.recovering import recover_run
from labrunner.store.reading.run_state import iter_finished
from tests.kit.builders import make_experiment
from tests.kit.interop.exported import HOSTILE, TASKS, make_picture
from tests.kit.made_runs import Told, make_grid, write_run

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

pytestmark = pytest.mark.filterwarnings("ignore")  # the other package's own


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> RunInFull:
    return make_picture(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def logs(seen: RunInFull, tmp_path_factory: pytest.TempPathFactory) -> "dict[str, EvalLog]":
    from inspect_ai.log import read_eval_log

    made = export(seen, "inspect", tmp_path_factory.mktemp("logs") / "here")
    assert [path.name for path in made] == ["exported_base.eval", "exported_new.eval"]
    return {path.stem.rpartition("_")[2]: read_eval_log(str(path)) for path in made}


def sample(log: "EvalLog", task_id: str, epoch: int) -> "EvalSample":
    (found,) = [each for each in log.samples or [] if (each.id, each.epoch) == (task_id, epoch)]
    return found


def test_the_header_says_what_the_run_says(seen: RunInFull, logs: "dict[str, EvalLog]") -> None:
    log = logs["new"]
    assert (log.version, log.status, log.eval.task, log.eval.run_id) == (
        2, "cancelled", "export & <test>", "exported",
    )  # fmt: skip
    assert (log.eval.model, logs["base"].eval.model) == ("openai/big", "labrunner/base")
    assert (log.eval.dataset.samples, log.eval.dataset.sample_ids) == (3, list(TASKS))
    assert (log.eval.config.epochs, log.eval.config.retry_on_error) == (2, 1)
    assert log.eval.tags == ["nightly"]
    assert log.eval.metadata is not None
    assert log.eval.metadata["run_digest"] == seen.status.chain
    assert log.eval.metadata["bindings"] == {"model": "openai/big"}
    assert log.eval.task_id != logs["base"].eval.task_id


def test_counts_and_metrics_agree_with_the_summary(seen: RunInFull, logs: "dict[str, EvalLog]") -> None:
    figures = seen.summary.ext["figures"]
    for variant_id, log in logs.items():
        assert log.results is not None
        told = figures[variant_id]
        assert log.results.total_samples == told["planned"] == 6
        assert log.results.completed_samples == told["graded"]
        assert len(log.samples or []) == told["finished"] + told["invalidated"]
        (score,) = log.results.scores
        assert (score.name, score.scored_samples, score.unscored_samples) == ("share", told["tasks"], 0)
        assert score.metrics["mean"].value == pytest.approx(told["observed"])
        assert score.metrics["pass_rate"].value == pytest.approx(told["pass_rate"])


def test_every_finished_trial_is_a_sample_with_its_score(seen: RunInFull, logs: "dict[str, EvalLog]") -> None:
    count = 0
    for rows in iter_finished(seen.paths):
        ids, trial = rows.trial.ids, rows.trial
        found = sample(logs[ids.variant_id], ids.task_id, ids.repl_idx + 1)
        assert found.metadata["trial_id"] == rows.trial_id
        assert found.metadata["verdict"] == trial.verdict
        assert (found.error is None) == (trial.outcome == "graded")
        if trial.outcome == "graded":
            assert found.scores is not None
            assert found.scores["share"].value == trial.primary_metric_value
            assert (found.scores["share"].metadata or {})["verdict"] == trial.verdict
        else:
            assert not found.scores
        assert found.total_time == pytest.approx(
            sum(sum(attempt.phases_s.values()) for attempt in rows.timing.attempts)
        )
        count += 1
    assert count == 11
    with pytest.raises(ValueError, match="unpack"):
        sample(logs["new"], TASKS[2], 2)  # owed: not in the log


def test_inputs_targets_predictions_and_metrics_arrive_as_they_are(logs: "dict[str, EvalLog]") -> None:
    plain, odd = sample(logs["base"], TASKS[0], 1), sample(logs["base"], TASKS[1], 2)
    assert (plain.input, plain.target) == ("what is 6 x 7?", "42")
    assert (odd.input, odd.target) == ('{"question": "?"}', '{"any": ["json"]}')
    assert plain.output.completion == HOSTILE
    assert [(message.role, message.text) for message in plain.messages] == [
        ("user", "what is 6 x 7?"),
        ("assistant", HOSTILE),
    ]
    assert plain.scores is not None
    assert plain.scores["share"].answer == HOSTILE
    assert (plain.scores["share"].metadata or {})["metrics"] == {"steps": 3}
    usage = plain.model_usage["labrunner/base"]
    assert (usage.total_tokens, usage.total_cost) == (100, 0.5)


def test_errors_retries_limits_and_marks_arrive(logs: "dict[str, EvalLog]") -> None:
    failed, retried = sample(logs["base"], TASKS[1], 1), sample(logs["new"], TASKS[0], 1)
    assert failed.error is not None
    assert failed.error.message == "grade_error (made): attempt 2 went wrong"
    assert [error.message for error in failed.error_retries or []] == ["sandbox (made): attempt 1 went wrong"]
    assert [error.message for error in retried.error_retries or []] == [
        "provider (made): attempt 1 went wrong"
    ]
    assert retried.error is None
    events = (retried.error_retries or [])[0].events or []
    assert [event.event for event in events] == ["info"]
    limited, marked = sample(logs["base"], TASKS[2], 1), sample(logs["base"], TASKS[2], 2)
    assert limited.limit is not None
    assert limited.limit.type == "time"
    assert marked.invalidation is not None
    assert (marked.invalidation.author, marked.invalidation.reason) == ("ann", f"leaked {HOSTILE}")
    assert (logs["base"].invalidated, logs["new"].invalidated) == (True, False)


def test_transcripts_arrive_as_messages_and_events(logs: "dict[str, EvalLog]") -> None:
    found = sample(logs["new"], TASKS[0], 1)
    assert [(message.role, message.text) for message in found.messages] == [
        ("user", "6 x 7?"),
        ("assistant", "let me see"),
        ("tool", "42"),
        ("assistant", "42"),
    ]
    calls: Any = getattr(found.messages[1], "tool_calls", None)
    assert [(call.id, call.function, call.arguments) for call in calls] == [("c1", "bash", {"cmd": "bc"})]
    assert [event.event for event in found.events] == ["sample_init", *["info"] * 5, "score"]
    assert getattr(found.events[1], "data", None) == {"type": "step", "n": 1}
    assert found.events[2].timestamp.isoformat() == "2026-01-01T00:00:05+00:00"


def test_what_authors_say_of_a_task_arrives(seen: RunInFull, logs: "dict[str, EvalLog]") -> None:
    found = sample(logs["base"], TASKS[2], 1)
    assert (found.metadata["tags"], found.metadata["level"]) == (["x"], 3)
    assert found.metadata["barrier"] == "the author's"
    assert found.metadata["labrunner"] == {"barrier": "pid_namespace"}


def test_a_standard_error_is_there_also_for_one_replication(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    run = write_run(
        tmp_path / "runs",
        make_grid(tasks=10, variants=("a",)),
        lambda slot: Told(value=float(slot.task_idx < 6), passes=slot.task_idx < 6),
    )
    (path,) = export(read_in_full(run), "inspect", tmp_path / "one.eval")
    log = read_eval_log(str(path))
    assert log.results is not None
    (score,) = log.results.scores
    # What inspect's own stderr() is of six ones and four zeros.
    assert score.metrics["stderr"].value == pytest.approx(0.16329931618554522)
    assert score.scored_samples == 10


def test_a_report_of_a_crash_leaves_in_every_format_with_what_was_in_flight(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    run = write_run(
        tmp_path / "runs",
        make_grid(tasks=3, variants=("a",)),
        lambda slot: Told(value=1.0) if slot.task_idx == 0 else None,
        status="started",
    )
    said = {"role": "assistant", "content": "so far", "model": "m"}
    lines = [{"event": "message", "id": 0, "message": said}]
    folder = run.attempt(make_trial_id("a", "t1", 0), 1)
    folder.mkdir(parents=True)
    (folder / "transcript.jsonl").write_bytes(b"".join(map(canonical.encode_line, lines)))
    report = asyncio.run(recover_run(run)).paths
    for paths in (run, report):
        for name in EXPORTERS.built_in:
            export(read_in_full(paths), name, tmp_path / f"{paths.root.name}{find_exporter(name).ending}")
        log = read_eval_log(str(tmp_path / f"{paths.root.name}.eval"))
        assert [each.id for each in log.samples or []] == ["t0", "t1"]
        cut = sample(log, "t1", 1)
        assert cut.error is not None
        assert cut.error.message == "cancelled: the run ended before the trial did"
        assert [message.text for message in cut.messages] == ["so far"]
        assert not cut.scores


def test_samples_summaries_and_reductions_can_be_read_alone(seen: RunInFull, tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

    base, _ = export(seen, "inspect", tmp_path / "logs")
    summaries = read_eval_log_sample_summaries(str(base))
    assert [(each.id, each.epoch) for each in summaries] == [
        (TASKS[0], 1), (TASKS[1], 1), (TASKS[2], 1), (TASKS[0], 2), (TASKS[1], 2), (TASKS[2], 2),
    ]  # fmt: skip
    assert [each.error for each in summaries if each.error] == ["grade_error (made): attempt 2 went wrong"]
    assert [each.retries for each in summaries] == [0, 1, 0, 0, 0, 0]
    assert read_eval_log_sample(str(base), id=TASKS[1], epoch=2).id == TASKS[1]
    log = read_eval_log(str(base))
    assert log.reductions is not None
    assert {each.sample_id: each.value for each in log.reductions[0].samples} == {
        TASKS[0]: 1.0, TASKS[1]: 1.0, TASKS[2]: 0.25,
    }  # fmt: skip
    assert read_eval_log(str(base), header_only=True).samples is None


def test_the_other_packages_tables_can_be_made_of_them(seen: RunInFull, tmp_path: Path) -> None:
    from inspect_ai.analysis import evals_df, samples_df

    export(seen, "inspect", tmp_path / "logs")
    assert len(evals_df(str(tmp_path / "logs"))) == 2
    assert len(samples_df(str(tmp_path / "logs"))) == 11


def test_a_run_of_one_variant_is_one_file(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    from labrunner.runner.reports.lookup import read_in_full

    paths = write_run(tmp_path, make_grid(variants=("a",), tasks=2), lambda slot: Told(value=0.0))
    (made,) = export(read_in_full(paths), "inspect", tmp_path / "one.eval")
    log = read_eval_log(str(made))
    assert (log.status, len(log.samples or [])) == ("success", 2)


def test_a_run_with_nothing_finished_is_a_log_without_scores(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    from labrunner.runner.reports.lookup import read_in_full

    paths = write_run(tmp_path, make_experiment(), lambda slot: None, status="error")
    (made,) = export(read_in_full(paths), "inspect", tmp_path / "none.eval")
    log = read_eval_log(str(made))
    assert log.status == "error"
    assert log.results is not None
    assert log.results.scores == []


def test_exporting_does_not_need_the_other_package(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['inspect_ai'] = None\n"
        "from pathlib import Path\n"
        "from tests.kit.interop.exported import make_picture\n"
        "from labrunner.interop.registry import export\n"
        f"export(make_picture(Path({str(tmp_path)!r})), 'inspect', Path({str(tmp_path / 'logs')!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
