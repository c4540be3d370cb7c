import msgspec
import pytest

from labrunner.analysis.summary import read_report, summarise
from labrunner.analysis.sums.tally import Tally
from labrunner.display.results.show import describe_outages, show_run, state_line
from labrunner.display.text.quantities import format_figure
from labrunner.experiment.resolved import Population
from labrunner.records.cause import Cause
from labrunner.records.facts.outage_note import OutageNote
from labrunner.records.rows import Benchmark, TrialRow
from labrunner.records.run import Counts, RunError, ScheduleProgress, StatusRecord
from labrunner.records.summary import SummaryRecord
from tests.kit.analysis.trial_rows import failed, graded
from tests.kit.display.printing import to_text


def make_summary(
    *rows: TrialRow,
    planned: int = 8,
    groups: dict[str, str | None] | None = None,
    population: Population = "tasks_like_these",
) -> SummaryRecord:
    tally = Tally(groups or {f"t{number}": None for number in range(4)})
    for row in rows:
        tally.add(row)
    benchmark = Benchmark(adapter_id="labrunner", name="demo", split="all")
    variants = dict.fromkeys((row.ids.variant_id for row in rows), planned)
    return summarise(tally, run_id="run", benchmark=benchmark, planned=variants, population=population)


def make_status(*, committed: int = 8, buffered: int = 0, planned: int = 8) -> StatusRecord:
    return StatusRecord(
        schema_version="status_v1",
        run_id="run",
        status="success",
        counts=Counts(
            planned=planned, committed=committed, buffered=buffered, running=2, passed=0, failed=0, errors=0
        ),
        schedule_progress=ScheduleProgress(next_schedule_idx=committed, total=planned),
        error=None,
        started_at="2026-05-29T12:00:00.000Z",
        updated_at="2026-05-29T12:01:00.000Z",
        ended_at="2026-05-29T12:01:15.000Z",
        chain="sha256:" + "ab" * 32,
    )


def all_graded(variant_id: str = "a") -> list[TrialRow]:
    return [
        graded(variant_id, f"t{number}", repl, value=float(number > 0))
        for number in range(4)
        for repl in range(2)
    ]


def show(summary: SummaryRecord) -> str:
    return to_text(show_run(state="success", status=make_status(), summary=summary))


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_a_finished_run_is_shown_with_its_digest_table_method_and_hints() -> None:
    told = show_run(
        state="success",
        status=make_status(),
        summary=make_summary(*all_graded()),
        hints=[("one trial", "lab show last TRIAL")],
    )
    assert to_text(told).splitlines() == [
        "success: all 8 trials finished in 1:15",
        "digest sha256:" + "ab" * 32,
        "",
        "variant  planned  graded  pass  fail  errors  retried   mean  95% interval",
        "────────────────────────────────────────────────────────────────────────────",
        "a              8       8     6     2       0        0  0.750  0.136 to 0.994",
        "",
        "a            ├──────────────────────────────────────────────●──────────────────┤",
        "   0                0.25                0.5               0.75                 1",
        "",
        "variant  lower  observed  upper  coverage  within tasks  between    icc",
        "───────────────────────────────────────────────────────────────────────",
        "a        0.750     0.750  0.750      100%         0.000    0.250  1.000",
        "",
        "variant  k  pass@k  95% interval    pass^k  95% interval",
        "──────────────────────────────────────────────────────────",
        "a        1   0.750  0.136 to 0.994   0.750  0.136 to 0.994",
        "         2   0.750  undefined        0.750  undefined",
        "",
        "mean of `solved` over 4 tasks, each weighing the same; interval: too few to",
        "speak of others (4; it takes 6) (Wilson over tasks)",
        "",
        "one trial  lab show last TRIAL",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    summary = make_summary(*all_graded("a-variant-with-a-very-long-name"), failed("b", "t0"))
    told = to_text(show_run(state="success", status=make_status(), summary=summary), width)
    assert max(len(line) for line in told.splitlines()) <= width


def test_errors_are_warned_of_by_cause_with_the_bounds_of_the_mean() -> None:
    rows = [*all_graded()[:6], failed(task_id="t3"), failed(task_id="t3", repl_idx=1, cause=Cause.SANDBOX)]
    told = unwrapped(show(make_summary(*rows)))
    assert (
        "warning: a: 2 trials without a grade (grade_error 1, sandbox 1), left out of the mean; "
        "counted as 0 or as 1 it is 0.500 to 0.750" in told
    )
    assert "warning: a: only 75% of the planned trials are graded (6 of 8)" in told
    assert "warning: a: 1 task without any graded trial, so the mean speaks of the others only (t3)" in told


def test_a_sound_run_has_no_warnings() -> None:
    assert "warning" not in show(make_summary(*all_graded()))


def test_what_is_only_not_finished_yet_is_no_warning() -> None:
    told = to_text(show_run(state="started", status=make_status(), summary=make_summary(*all_graded()[:3])))
    assert "warning" not in told
    assert told.startswith("running: 3 of 8 trials finished")


def test_an_interval_that_data_can_not_carry_is_called_undefined() -> None:
    told = show(make_summary(graded(task_id="t0"), groups={"t0": None}, planned=1))
    assert "1.000  undefined" in told
    assert "mean of `solved` over one task; no interval: 1 task is too few to speak of" in told


def test_one_task_has_an_interval_where_all_is_about_it() -> None:
    rows = [graded(task_id="t0", repl_idx=n, value=float(n < 5)) for n in range(8)]
    told = unwrapped(show(make_summary(*rows, groups={"t0": None}, population="these_tasks")))
    assert "0.289 to 0.889" in told
    assert "mean of `solved` over one task; interval: about these tasks only" in told
    assert "no interval" not in told


def test_variants_with_other_methods_are_told_apart() -> None:
    told = unwrapped(
        show(make_summary(*all_graded("a"), *(graded("b", f"t{n}", value=float(n)) for n in range(2))))
    )
    assert "a: mean of `solved` over 4 tasks, each weighing the same; interval: too few" in told
    assert "b: mean of `solved` over 2 tasks, each weighing the same; interval: too few" in told


def test_few_groups_and_retries_are_warned_of() -> None:
    rows = [graded(task_id=f"t{number}", value=float(number % 2), attempts=2) for number in range(4)]
    groups: dict[str, str | None] = {"t0": "x", "t1": "x", "t2": "x", "t3": "y"}
    told = unwrapped(show(make_summary(*rows, groups=groups, planned=4)))
    assert "warning: a: an interval over only 2 groups is rough" in told
    assert "warning: a: 4 trials needed a retry" in told


def test_limits_that_agents_ran_into_are_told() -> None:
    rows = [graded(task_id=f"t{number}", value=0.0, ended_by="timeout") for number in range(4)]
    assert "a: agents that ran into a limit, graded as they stood: timeout 4" in unwrapped(
        show(make_summary(*rows))
    )


def test_names_from_an_experiment_are_printed_not_interpreted() -> None:
    told = show(make_summary(*all_graded("[red]a[/red]\x1b[2J")))
    assert "[red]a[/red]\\x1b[2J" in told
    assert "\x1b" not in told


def test_each_state_is_told_in_words() -> None:
    status = msgspec.structs.replace(make_status(buffered=2), ended_at=None, chain=None)
    error = RunError(message="disk full", cause="sandbox", trial_id="t0.a.0")
    assert state_line("started", status, finished=5) == (
        "running: 5 of 8 trials finished (2 of them wait in the buffer for slots before), 2 running"
    )
    one = msgspec.structs.replace(make_status(buffered=1), ended_at=None, chain=None)
    assert "(1 of them waits in the buffer for slots before)" in state_line("started", one, finished=5)
    assert state_line("crashed", status, finished=5) == (
        "crashed: 5 of 8 trials finished; the last sign of life was at 2026-05-29T12:01:00.000Z"
    )
    assert state_line("crashed", status, finished=5, last_sign_at="2026-05-29T12:02:00.000Z").endswith(
        "the last sign of life was at 2026-05-29T12:02:00.000Z"
    )
    failed_status = msgspec.structs.replace(make_status(), error=error)
    assert state_line("error", failed_status, finished=5) == (
        "error: 5 of 8 trials finished in 1:15; sandbox: disk full (trial t0.a.0)"
    )


def test_large_figures_keep_their_leading_digits() -> None:
    assert [format_figure(value) for value in (None, 0.12345, 99.5, 123456.7)] == [
        "-",
        "0.123",
        "99.500",
        "1.2346e+05",
    ]


def show_in_short(*rows: TrialRow) -> str:
    summary = make_summary(*rows)
    return to_text(show_run(state="success", status=make_status(), summary=summary, in_full=False))


def test_in_short_a_whole_run_is_its_table_and_what_differs() -> None:
    told = show_in_short(*all_graded("a"), *all_graded("b"))
    assert "against a" in told
    assert "pass@k" not in told
    assert "median" not in told
    assert "lower" not in told


def test_in_short_a_run_with_errors_still_shows_its_bounds() -> None:
    told = show_in_short(*all_graded()[:-1], failed("a", "t3", 1))
    assert "lower  observed  upper  coverage" in told


def test_in_short_a_run_with_retries_still_shows_what_they_may_have_bent() -> None:
    rows = [graded("a", "t0", 0, value=0.0, attempts=2), *all_graded()[1:]]
    told = show_in_short(*rows)
    shift = read_report(make_summary(*rows)).retry_shift
    assert shift is not None
    assert shift.verdict.split(";")[0] in unwrapped(told)


def test_the_ways_in_which_barriers_were_held_are_told_with_what_they_prove() -> None:
    barriers = {"restarted": ["a"], "separate_user": ["b", "c"]}
    told = unwrapped(
        to_text(
            show_run(
                state="success",
                status=make_status(),
                summary=make_summary(*all_graded()),
                barriers=barriers,
            )
        )
    )
    assert "barrier of a: restarted: every process of the agent was ended with its container" in told
    assert "barrier of b, c: separate_user: the agent's user can't touch the wrapper" in told


def test_outages_are_told_in_one_line_with_how_long_and_why() -> None:
    at = "2026-01-01T0{}:00:00.000Z".format
    over = OutageNote(cause=Cause.PROVIDER, began_at=at(1), ended_at=at(2), end="answered")
    lasts = OutageNote(cause=Cause.ACCOUNT, began_at=at(3))
    assert describe_outages([over], is_live=False) == "paused by 1 outage (provider), 1:00:00 in all"
    assert describe_outages([over, lasts], is_live=True) == (
        "paused by 2 outages (provider, account), 1:00:00 in all; paused now, since 2026-01-01T03:00:00.000Z"
    )
    assert describe_outages([lasts], is_live=False) == "paused by 1 outage (account)"
