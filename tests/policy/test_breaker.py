from labrunner.policy.breaker import Breaker
from labrunner.policy.pace import PACE
from labrunner.records.cause import Cause


def opened(after: int = 3) -> Breaker[str]:
    breaker: Breaker[str] = Breaker(after=after)
    for number in range(after):
        breaker.on_failure(Cause.PROVIDER, f"t{number}", 100.0)
    return breaker


def test_a_failure_that_may_be_an_outage_is_held_back() -> None:
    breaker: Breaker[str] = Breaker(after=3)

    ruling = breaker.on_failure(Cause.PROVIDER, "a", 0.0)

    assert (list(ruling.decide), list(ruling.owe)) == ([], [])
    assert not breaker.is_open


def test_a_grade_breaks_the_row_and_held_failures_are_decided() -> None:
    breaker: Breaker[str] = Breaker(after=3)
    breaker.on_failure(Cause.PROVIDER, "a", 0.0)
    breaker.on_failure(Cause.PROVIDER, "b", 0.0)

    assert list(breaker.on_grade().decide) == ["a", "b"]
    assert list(breaker.on_grade().decide) == []


def test_another_watched_cause_starts_a_row_of_its_own() -> None:
    breaker: Breaker[str] = Breaker(after=2)
    breaker.on_failure(Cause.PROVIDER, "a", 0.0)

    ruling = breaker.on_failure(Cause.SANDBOX, "b", 0.0)

    assert list(ruling.decide) == ["a"]
    assert not breaker.is_open
    assert list(breaker.on_failure(Cause.SANDBOX, "c", 0.0).owe) == ["b", "c"]
    assert breaker.is_open


def test_causes_that_are_nobody_elses_fault_are_decided_at_once() -> None:
    breaker: Breaker[str] = Breaker(after=2)
    breaker.on_failure(Cause.PROVIDER, "a", 0.0)

    assert list(breaker.on_failure(Cause.GRADE_ERROR, "b", 0.0).decide) == ["a", "b"]


def test_a_long_enough_row_opens_it_and_nothing_of_the_row_is_spent() -> None:
    breaker: Breaker[str] = Breaker(after=3)
    breaker.on_failure(Cause.PROVIDER, "a", 0.0)
    breaker.on_failure(Cause.PROVIDER, "b", 0.0)

    ruling = breaker.on_failure(Cause.PROVIDER, "c", 10.0)

    assert (list(ruling.decide), list(ruling.owe)) == ([], ["a", "b", "c"])
    assert breaker.is_open
    assert breaker.probe_at == 10.0 + PACE.first_probe_s


def test_probes_wait_twice_as_long_each_time_up_to_a_ceiling() -> None:
    breaker = opened()
    waits = []
    now = 100.0
    for _ in range(8):
        assert breaker.probe_at is not None
        waits.append(breaker.probe_at - now)
        now = breaker.probe_at
        breaker.start_probe()
        assert breaker.probe_at is None
        assert list(breaker.on_failure(Cause.PROVIDER, "probe", now).owe) == ["probe"]

    assert waits[:3] == [PACE.first_probe_s, PACE.first_probe_s * 2, PACE.first_probe_s * 4]
    assert waits[-1] == PACE.longest_probe_s
    assert breaker.open_for_s(now) == now - 100.0


def test_failures_of_attempts_that_were_in_flight_are_owed_while_it_is_open() -> None:
    breaker = opened()
    due = breaker.probe_at

    assert list(breaker.on_failure(Cause.PROVIDER, "late", 101.0).owe) == ["late"]
    assert breaker.probe_at == due


def test_one_grade_closes_it() -> None:
    breaker = opened()
    breaker.start_probe()

    breaker.on_grade()

    assert not breaker.is_open
    assert list(breaker.on_failure(Cause.PROVIDER, "x", 200.0).owe) == []


def test_another_kind_of_failure_closes_it_too() -> None:
    breaker = opened()
    breaker.start_probe()

    assert list(breaker.on_failure(Cause.SETUP, "x", 200.0).decide) == ["x"]
    assert not breaker.is_open


def test_at_the_end_what_is_held_back_is_decided() -> None:
    breaker: Breaker[str] = Breaker(after=5)
    breaker.on_failure(Cause.SANDBOX, "a", 0.0)

    assert list(breaker.let_go().decide) == ["a"]


def test_after_zero_switches_it_off() -> None:
    breaker: Breaker[str] = Breaker(after=0)

    assert list(breaker.on_failure(Cause.SANDBOX, "a", 0.0).decide) == ["a"]


def test_a_probe_that_came_to_no_end_is_made_again_at_once() -> None:
    breaker = opened()
    breaker.start_probe()
    under_way = breaker.probe_at

    breaker.on_cut_off(150.0)

    assert under_way is None
    assert (breaker.is_open, breaker.probe_at) == (True, 150.0)


def test_what_came_to_no_end_changes_nothing_else() -> None:
    breaker = opened()
    due = breaker.probe_at

    breaker.on_cut_off(101.0)

    assert breaker.probe_at == due
