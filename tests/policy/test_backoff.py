import pytest

from labrunner.policy.backoff import heed, wait_s


def test_each_wait_is_twice_the_one_before_up_to_the_longest() -> None:
    waits = [wait_s(before, first_s=2.0, longest_s=10.0) for before in range(5)]

    assert waits == [2.0, 4.0, 8.0, 10.0, 10.0]


@pytest.mark.parametrize(("jitter", "waited_s"), [(0.0, 4.0), (0.5, 6.0), (1.0, 8.0)])
def test_jitter_takes_up_to_half_of_a_wait_away(jitter: float, waited_s: float) -> None:
    assert wait_s(2, first_s=2.0, jitter=jitter) == waited_s


def test_even_the_ten_thousandth_wait_is_a_number() -> None:
    assert wait_s(10_000, first_s=1.0, longest_s=300.0) == 300.0


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_who_asks_for_patience_gets_all_of_it_and_little_more(jitter: float) -> None:
    assert 30.0 <= heed(30.0, jitter=jitter) <= 33.0
