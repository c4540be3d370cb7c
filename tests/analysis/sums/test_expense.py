import numpy as np
import pytest

from labrunner.analysis.judging.outage import find_outage
from labrunner.analysis.sums.expense import Expense
from labrunner.records.facts.call_usage import UNPRICED
from labrunner.records.glance import AttemptTimes, TimingGlance
from tests.kit.analysis.trial_rows import graded


def attempt(
    at: float = 0.0, *, agent_s: float | None = 1.0, adopted: bool = False, **usage: float
) -> AttemptTimes:
    seconds = f"{int(at) // 3600:02}:{int(at) // 60 % 60:02}:{at % 60:06.3f}"
    phases = {"prepare": 0.5} | ({} if agent_s is None else {"agent": agent_s})
    return AttemptTimes(ended_at=f"2026-01-01T{seconds}Z", phases_s=phases, usage=usage, adopted=adopted)


def add(
    expense: Expense,
    *attempts: AttemptTimes,
    passes: bool = True,
    cut_off: tuple[str, ...] = (),
    task_id: str = "t0",
) -> None:
    timing = TimingGlance(schedule_idx=0, attempts=attempts, cut_off=cut_off)
    expense.add(graded(task_id=task_id, value=float(passes)), timing)


def test_median_and_p95_are_over_trials_and_the_total_over_all_attempts() -> None:
    expense = Expense()
    amounts = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0]
    for amount in amounts:
        add(expense, attempt(tokens=amount))
    found = expense.variants["a"].quantities()["tokens"]
    assert (found.trials, found.total, found.discarded) == (7, 25.0, 0.0)
    assert found.median == np.median(amounts)
    assert found.p95 == pytest.approx(np.quantile(amounts, 0.95))


def test_what_failed_attempts_cost_is_in_the_trial_and_counted_as_discarded() -> None:
    expense = Expense()
    add(expense, attempt(cost_usd=0.25, agent_s=10.0), attempt(cost_usd=0.5, agent_s=20.0))
    found = expense.variants["a"].quantities()
    assert (found["cost_usd"].total, found["cost_usd"].discarded) == (0.75, 0.25)
    assert (found["time_s"].total, found["time_s"].discarded) == (31.0, 10.5)
    assert found["agent_s"].median == 30.0


def test_what_a_trial_does_not_tell_is_not_zero() -> None:
    expense = Expense()
    add(expense, attempt(tokens=100.0))
    add(expense, attempt())
    add(expense, attempt(tokens=50.0), attempt())
    found = expense.variants["a"].quantities()
    assert (found["tokens"].trials, found["tokens"].median, found["tokens"].total) == (2, 75.0, 150.0)
    assert "cost_usd" not in found


def test_adopted_and_cut_off_attempts_are_counted() -> None:
    expense = Expense()
    add(expense, attempt(), attempt(adopted=True), cut_off=("1.cut-1", "1.cut-2"))
    assert (expense.variants["a"].adopted, expense.variants["a"].cut_off) == (1, 2)


def run_with(fast: range, *, trials: int = 200, passes: bool = False) -> Expense:
    expense = Expense()
    for number in range(trials):
        is_fast = number in fast
        add(
            expense,
            attempt(10.0 * number + (0.5 if is_fast else 60.0), agent_s=0.5 if is_fast else 60.0),
            passes=passes if is_fast else number % 2 == 0,
            task_id=f"t{number}",
        )
    return expense


def test_many_fast_failures_in_a_row_look_like_an_outage() -> None:
    found = find_outage(run_with(range(50, 62)).variants)
    assert found is not None
    assert (found.trials, found.longest_agent_s) == (12, 0.5)
    assert found.ended_at - found.began_at == pytest.approx(110.0)
    assert found.expected < 1e-6


def test_fast_agents_that_pass_are_only_good() -> None:
    assert find_outage(run_with(range(50, 62), passes=True).variants) is None


def test_fast_failures_spread_over_the_run_are_no_outage() -> None:
    expense = Expense()
    for number in range(200):
        at = attempt(10.0 * number, agent_s=0.5 if number % 4 == 0 else 60.0)
        add(expense, at, passes=False, task_id=f"t{number}")
    assert find_outage(expense.variants) is None


def test_a_few_in_a_row_are_no_outage() -> None:
    assert find_outage(run_with(range(50, 55)).variants) is None


def test_agents_that_are_always_quick_say_nothing() -> None:
    expense = Expense()
    for number in range(100):
        at = attempt(float(number), agent_s=0.001 if 40 <= number < 60 else 0.1)
        add(expense, at, passes=False, task_id=f"t{number}")
    assert find_outage(expense.variants) is None


def test_an_outage_is_looked_for_over_all_variants_by_the_clock_not_by_the_schedule() -> None:
    expense = Expense()
    for number in range(100):
        for variant_id in ("a", "b"):
            is_fast = 40 <= number < 45
            agent_s = 0.1 if is_fast else 50.0
            timing = TimingGlance(
                schedule_idx=0, attempts=(attempt(10.0 * number + agent_s, agent_s=agent_s),)
            )
            expense.add(graded(variant_id, f"t{number}", value=0.0 if is_fast else 1.0), timing)
    found = find_outage(expense.variants)
    assert found is not None
    assert (found.trials, found.tasks) == (10, 5)


def by_task(giving_up: set[int], *, tasks: int = 60, replications: int = 5) -> Expense:
    """Task after task, all replications of each together; on some the agent always gives up at once."""
    expense = Expense()
    for task in range(tasks):
        for repl_idx in range(replications):
            at = 60.0 * (task * replications + repl_idx)
            is_over = task in giving_up
            add(
                expense,
                attempt(at, agent_s=0.5 if is_over else 50.0),
                passes=not is_over and task % 2 == 0,
                task_id=f"t{task}",
            )
    return expense


def test_tasks_on_which_agents_give_up_at_once_are_no_outage() -> None:
    assert find_outage(by_task({10, 11, 12}).variants) is None
    assert find_outage(by_task({3, 10, 25, 26, 40, 55}).variants) is None


def test_a_task_that_gives_up_in_every_replication_explains_itself() -> None:
    expense = Expense()
    for repl_idx in range(3):
        for task in range(60):
            is_over = 10 <= task < 22
            at = 60.0 * (repl_idx * 60 + task)
            times = attempt(at, agent_s=0.5 if is_over else 50.0)
            add(expense, times, passes=not is_over, task_id=f"t{task}")
    assert find_outage(expense.variants) is None


@pytest.mark.parametrize("hit", [60, 120, 180])
def test_an_outage_that_hit_most_of_a_run_is_found(hit: int) -> None:
    found = find_outage(run_with(range(10, 10 + hit)).variants)
    assert found is not None
    assert found.trials == hit


def test_an_agent_that_was_at_work_before_an_outage_does_not_hide_it() -> None:
    expense = Expense()
    for number in range(60):
        is_hit = 20 <= number < 40
        # The long one began before, and ends in the middle of it.
        at, agent_s = (600.0, 0.5) if is_hit else (30.0 * number, 29.0)
        if is_hit:
            at += 10.0 * (number - 20)
        add(expense, attempt(at, agent_s=agent_s), passes=not is_hit, task_id=f"t{number}")
    add(expense, attempt(690.0, agent_s=400.0), task_id="long")
    found = find_outage(expense.variants)
    assert found is not None
    assert found.trials == 20


def test_times_that_nobody_knows_are_passed_over() -> None:
    expense = Expense()
    timing = TimingGlance(schedule_idx=0, attempts=(AttemptTimes(ended_at="x"),))
    expense.add(graded(), timing)
    assert find_outage(expense.variants) is None
    assert expense.variants["a"].quantities() == {}
    assert find_outage({}) is None


def test_calls_without_a_price_are_counted_beside_the_money() -> None:
    expense = Expense()
    add(expense, attempt(tokens=10, cost_usd=1.0, unpriced_requests=2))
    add(expense, attempt(tokens=10, cost_usd=1.0), task_id="t1")
    spent = expense.variants["a"].quantities()
    assert (spent[UNPRICED].total, spent[UNPRICED].trials) == (2.0, 1)
    assert spent["cost_usd"].total == 2.0
