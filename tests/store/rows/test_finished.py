from hypothesis import given
from hypothesis import strategies as st

from labrunner.store.rows.finished import FinishedSlots


@given(st.sets(st.integers(0, 40)), st.integers(0, 40))
def test_a_slot_is_finished_when_it_is_committed_or_buffered(buffered: set[int], committed: int) -> None:
    slots = FinishedSlots(planned=41, committed=0)
    for idx in buffered:
        slots.buffer(idx)
        slots.buffer(idx)
    assert slots.buffered == len(buffered)
    slots.commit_to(committed)
    assert [idx for idx in range(41) if idx in slots] == sorted({*range(committed), *buffered})
    assert slots.buffered == len([idx for idx in buffered if idx >= committed])


def test_numbers_outside_the_schedule_are_not_finished() -> None:
    slots = FinishedSlots(planned=3, committed=3)
    assert -1 not in slots
    assert 3 not in slots
    assert 10**9 not in slots
