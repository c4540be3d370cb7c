"""Who is at fault when nodes are lost."""

import pytest

from labrunner.executor.cluster.losses import FEWEST, MOST, Losses


@pytest.mark.parametrize(
    ("nodes", "tolerated"), [(1, MOST - 1), (3, MOST - 1), (10, 4), (99, 3), (100, 2), (10**6, 2)]
)
def test_the_more_nodes_there_are_the_sooner_a_trial_is_at_fault(nodes: int, tolerated: int) -> None:
    noted = Losses()
    told = [noted.add("t", nodes=nodes) for _ in range(tolerated + 1)]
    assert told == [False] * tolerated + [True]
    assert noted.count("t") == tolerated + 1 >= FEWEST


def test_an_attempt_that_came_to_its_end_clears_its_trial() -> None:
    noted = Losses()
    for _ in range(FEWEST - 1):
        assert not noted.add("t", nodes=1000)
    noted.forget("t")
    assert noted.count("t") == 0
    assert not noted.add("t", nodes=1000)


def test_trials_are_told_apart() -> None:
    noted = Losses()
    assert [noted.add("t", nodes=1000) for _ in range(FEWEST)][-1]
    assert not noted.add("u", nodes=1000)
