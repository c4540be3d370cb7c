import signal

import msgspec

from labrunner.display.trials.trialview import PATCH_LINES, describe_phase, show_trial, verdict_line
from labrunner.records.completion import AttemptTiming, FileRef, PhaseFact, Prediction
from labrunner.records.rows import Benchmark, PredictionRow, TimingRow, TrialRow
from tests.kit.analysis.trial_rows import failed, graded
from tests.kit.display.printing import to_text


def make_timing(row: TrialRow, **words: str) -> TimingRow:
    return TimingRow(
        schema_version="trial_timing_v1",
        schedule_idx=row.schedule_idx,
        ids=row.ids,
        attempts=tuple(
            AttemptTiming(
                attempt=fact.attempt,
                started_at="2026-05-29T12:00:00.000Z",
                ended_at="2026-05-29T12:00:02.000Z",
                host="desk",
                sandbox="bubblewrap",
                phases_s={"agent": 1.5, "grader": 0.25, "prepare": 0.004},
                message=words.get("message"),
                traceback=words.get("traceback"),
            )
            for fact in row.attempts
        ),
    )


def test_a_trial_is_shown_with_every_attempt_and_its_phases() -> None:
    row = graded(attempts=2)
    told = to_text(show_trial(row, make_timing(row), logs={}, hints=[("files", "there")]))
    assert told.splitlines() == [
        "t0.a.0-9616314d79: pass, solved = 1",
        "task         t0",
        "variant      a",
        "replication  0",
        "slot         0",
        "barrier      pid_namespace: the kernel ended every process of the agent",
        "",
        "attempt 1: failed, cause sandbox (launch); 2026-05-29T12:00:00.000Z, bubblewrap",
        "on desk",
        "  phase       took  ended",
        "  ────────────────────────",
        "  prepare  0.004 s",
        "  agent      1.5 s  exit 0",
        "  grader   0.250 s  exit 3",
        "",
        "attempt 2: graded; 2026-05-29T12:00:00.000Z, bubblewrap on desk",
        "  phase       took  ended",
        "  ────────────────────────",
        "  prepare  0.004 s",
        "  agent      1.5 s  exit 0",
        "  grader   0.250 s  exit 0",
        "",
        "files  there",
    ]


def test_a_failed_trial_tells_cause_reason_and_message() -> None:
    row = failed()
    told = to_text(show_trial(row, make_timing(row, message="the grader exited 3"), logs={}))
    assert "no grade, cause grade_error (grader_exit)" in told
    assert "  the grader exited 3" in told


def test_text_from_the_sandbox_is_printed_not_interpreted() -> None:
    row = failed()
    timing = make_timing(row, message="\x1b[2J[bold]pass[/bold]", traceback="File \x07")
    logs = {
        "agent.stdout": "[red]ok[/red] :boom:\n\x1b]0;owned\x07\n",
        "agent.stderr": "",
        "grader.stdout": "fine",
    }
    told = to_text(show_trial(row, timing, logs=logs))
    assert "\x1b" not in told
    assert "\x07" not in told
    assert "\\x1b[2J[bold]pass[/bold]" in told
    assert "  [red]ok[/red] :boom:\n  \\x1b]0;owned\\x07\n" in told
    assert "agent.stderr" not in told


def test_only_the_tail_of_a_long_log_is_shown() -> None:
    row = graded()
    told = to_text(show_trial(row, None, logs={"agent.stdout": "".join(f"line {n}\n" for n in range(100))}))
    assert "(80 earlier lines)" in told
    assert "line 79\n" not in told
    assert "line 99\n" in told


def test_a_trial_without_timings_still_shows_its_exit_facts() -> None:
    assert "grader        exit 0" in to_text(show_trial(graded(), None, logs={}))


def test_files_flags_and_cut_off_attempts_are_named() -> None:
    file = FileRef(path="out/result.json", digest="sha256:" + "0" * 64, size=12)
    row = msgspec.structs.replace(graded(), files=(file,), flags=("missing",))
    timing = msgspec.structs.replace(make_timing(row), cut_off=("1.cut-1",))
    told = to_text(show_trial(row, timing, logs={}), width=120)
    assert f"file         out/result.json  12 B  {file.digest}" in told
    assert "flags        missing" in told
    assert "cut off      1.cut-1" in told


def test_a_limit_stands_in_the_first_line() -> None:
    assert verdict_line(graded(value=0.0, ended_by="timeout")).endswith("fail, solved = 0, ended by timeout")


def test_the_ends_of_phases_are_told_in_words() -> None:
    assert describe_phase(PhaseFact(exit_status=0)) == "exit 0"
    assert describe_phase(PhaseFact(exit_status=128 + signal.SIGKILL)) == "exit 137 (SIGKILL)"
    assert describe_phase(PhaseFact(exit_status=255)) == "exit 255"
    assert describe_phase(PhaseFact(exit_status=127)) == "exit 127 (no such command?)"
    assert describe_phase(PhaseFact(exit_status=None, timed_out=True)) == "timed out"
    assert describe_phase(PhaseFact(exit_status=137, oom_killed=True)) == "out of memory, exit 137 (SIGKILL)"
    assert describe_phase(PhaseFact(over_disk=True)) == "over its disk limit"
    assert describe_phase(PhaseFact()) == "ended by the runner"


def test_a_transcript_is_shown_as_a_conversation_and_other_text_as_it_is() -> None:
    line = '{"event": "message", "message": {"role": "user", "content": "hello"}}\n'
    told = to_text(show_trial(graded(), None, logs={"transcript.jsonl": line, "logs/agent.stdout": line}))
    assert "conversation:\n  user  hello\n" in told
    assert '{"event": "message"' in told.partition("logs/agent.stdout:")[2]


def test_what_an_agent_said_left_and_changed_is_told() -> None:
    row = graded(value=0.0)
    timing = make_timing(row)
    last = msgspec.structs.replace(
        timing.attempts[-1],
        agent_outcome="error",
        agent_error="auth: \x1b[31mno key",
        left_nothing=True,
        barrier={"system_changes": 30, "changed": "\n".join(f"/usr/bin/tool{n}" for n in range(20))},
    )
    shown = to_text(
        show_trial(row, msgspec.structs.replace(timing, attempts=(*timing.attempts[:-1], last)), logs={}), 200
    )
    assert "agent says  error" in shown
    assert "its error   auth: \\x1b[31mno key" in shown
    assert "agent left  nothing: it changed and handed in nothing" in shown
    assert "changed     /usr/bin/tool0, /usr/bin/tool1" in shown
    assert "/usr/bin/tool7, and 22 more" in shown


def test_a_trial_that_was_judged_in_a_fresh_container_says_so_and_what_that_proves() -> None:
    row = msgspec.structs.replace(graded(value=0.0), barrier="fresh_container", flags=("system_changed",))
    shown = to_text(show_trial(row, None, logs={}), 200)
    assert "fresh_container: the grader's container never held an agent" in shown
    assert "in a fresh container, because the agent changed the system of its own" in shown
    asked = msgspec.structs.replace(row, flags=())
    assert "because the agent" not in to_text(show_trial(asked, None, logs={}), 200)


def test_a_patch_is_shown_line_by_line() -> None:
    row = graded()
    patch = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\x1b[2J\n+new\n" + "+more\n" * 100
    judged = PredictionRow(
        schema_version="benchmark_prediction_record_v1",
        schedule_idx=row.schedule_idx,
        slot_commit_id="c",
        attempt=1,
        row_seq=0,
        ids=row.ids,
        benchmark=Benchmark(adapter_id="a", name="n", split="all"),
        prediction=Prediction(kind="patch", value=patch),
    )
    told = to_text(show_trial(row, None, logs={}, judged=[judged]))
    assert "prediction:\n  --- a/x.py\n  +++ b/x.py\n  @@ -1 +1 @@\n  -old\\x1b[2J\n  +new\n" in told
    assert f"({105 - PATCH_LINES} more lines; --json has them)" in told
