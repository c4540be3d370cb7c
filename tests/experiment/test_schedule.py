import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labrunner.experiment.resolved import Order
from labrunner.experiment.schedule import Permutation, Schedule
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import make_trial_id
from tests.kit.experiment.authoring import SMALL, Bench

schedules = st.builds(
    Schedule,
    variants=st.integers(1, 6),
    tasks=st.integers(1, 12),
    replications=st.integers(1, 6),
    order=st.sampled_from(list(Order)),
    seed=st.integers(0, 2**63 - 1),
)


# Computed by another program from the description of the permutation.
GOLDEN_42 = [8, 19, 18, 6, 1, 12, 11, 3, 17, 2, 9, 0, 16, 4, 13, 14, 7, 15, 5, 10]
GOLDEN_LARGE = (0, 43984, 4)


def triples(schedule: Schedule) -> Iterator[tuple[int, int, int]]:
    return ((slot.repl_idx, slot.task_idx, slot.variant_idx) for slot in schedule)


@given(schedules)
def test_every_trial_has_exactly_one_slot(schedule: Schedule) -> None:
    planned = {
        (repl, task, variant)
        for repl in range(schedule.replications)
        for task in range(schedule.tasks)
        for variant in range(schedule.variants)
    }
    assert len(schedule) == len(planned)
    assert sorted(triples(schedule)) == sorted(planned)


@given(schedules)
def test_index_is_the_inverse_of_slot(schedule: Schedule) -> None:
    for position, slot in enumerate(schedule):
        assert slot.schedule_idx == position
        assert schedule.index(slot.variant_idx, slot.task_idx, slot.repl_idx) == position


@given(size=st.integers(1, 2**60), seed=st.integers(0, 2**63 - 1), data=st.data())
def test_permutations_of_any_size_can_be_undone(size: int, seed: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(0, size - 1))
    permutation = Permutation(size=size, seed=seed)
    image = permutation.forward(value)
    assert 0 <= image < size
    assert permutation.backward(image) == value


def test_balanced_runs_replications_outermost_and_variants_innermost() -> None:
    schedule = Schedule(variants=2, tasks=2, replications=2, order=Order.BALANCED)
    assert list(triples(schedule)) == [
        (0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1),
    ]  # fmt: skip


def test_by_variant_finishes_one_variant_after_another() -> None:
    schedule = Schedule(variants=2, tasks=2, replications=2, order=Order.BY_VARIANT)
    assert [(slot.variant_idx, slot.repl_idx, slot.task_idx) for slot in schedule] == sorted(
        (slot.variant_idx, slot.repl_idx, slot.task_idx) for slot in schedule
    )


def test_by_task_finishes_one_task_after_another() -> None:
    schedule = Schedule(variants=2, tasks=2, replications=2, order=Order.BY_TASK)
    assert [(slot.task_idx, slot.repl_idx, slot.variant_idx) for slot in schedule] == sorted(
        (slot.task_idx, slot.repl_idx, slot.variant_idx) for slot in schedule
    )


def test_a_seed_gives_the_same_shuffled_order_on_every_machine() -> None:
    schedule = Schedule(variants=2, tasks=5, replications=2, order=Order.SHUFFLED, seed=42)
    positions = [(slot.repl_idx * 5 + slot.task_idx) * 2 + slot.variant_idx for slot in schedule]
    assert positions == GOLDEN_42
    large = Schedule(variants=3, tasks=1_000_003, replications=10, order=Order.SHUFFLED, seed=7)
    slot = large.slot(20_000_000)
    assert (slot.variant_idx, slot.task_idx, slot.repl_idx) == GOLDEN_LARGE


def test_another_seed_gives_another_order() -> None:
    orders = {
        tuple(triples(Schedule(variants=2, tasks=10, replications=1, order=Order.SHUFFLED, seed=seed)))
        for seed in range(20)
    }
    assert len(orders) == 20


def test_every_place_is_reached_about_equally_often_over_seeds() -> None:
    places = [Permutation(size=10, seed=seed).forward(0) for seed in range(2000)]
    assert all(140 <= places.count(place) <= 260 for place in range(10))


def test_positions_outside_the_schedule_are_refused() -> None:
    schedule = Schedule(variants=2, tasks=3, replications=1, order=Order.BALANCED)
    for idx in (-1, 6):
        with pytest.raises(IndexError, match="6 slots"):
            schedule.slot(idx)
    with pytest.raises(IndexError, match=r"\(2, 0, 0\)"):
        schedule.index(2, 0, 0)


def test_lines_name_the_trials_in_order_and_their_digest_covers_them(bench: Bench) -> None:
    experiment = bench.load(SMALL + "replications: 2\nvariants: [{id: x}, {id: y}]\n")
    schedule = Schedule.of(experiment)
    lines = list(schedule.lines(experiment))
    assert len(lines) == len(schedule) == 8
    assert json.loads(lines[3]) == {
        "schedule_idx": 3,
        "variant_id": "y",
        "task_id": "b",
        "repl_idx": 0,
        "trial_id": make_trial_id("y", "b", 0),
    }
    assert canonical.digest_stream(schedule.lines(experiment)) == canonical.digest_bytes(*lines)
