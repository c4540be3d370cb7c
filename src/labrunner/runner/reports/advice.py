"""What to type when a run's files turn out to be damaged: noted on the error, told with it."""

from collections.abc import Iterator
from contextlib import contextmanager

from labrunner.errors import DamagedRun
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import address


@contextmanager
def advise_on_damage(paths: RunPaths) -> Iterator[None]:
    """Note on the damage of a run how to save what is sound of it."""
    try:
        yield
    except DamagedRun as error:
        error.add_note(advice_on_damage(paths))
        raise


def advice_on_damage(paths: RunPaths) -> str:
    """How to save what is sound of a damaged run."""
    return f"to save what is sound: lab log recover {address(paths)}"
