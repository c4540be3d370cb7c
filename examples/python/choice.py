"""Multiple choice: which unit measures what."""

from labrunner import Task, task
from labrunner.dataset import MemoryDataset, Sample
from labrunner.scorer import choice
from labrunner.solver import multiple_choice, system_message

UNITS = {"force": "newton", "pressure": "pascal", "charge": "coulomb", "power": "watt", "frequency": "hertz"}


def read_dataset() -> MemoryDataset:
    units = list(UNITS.values())
    return MemoryDataset(
        [
            Sample(
                input=f"Which unit measures {quantity}?",
                choices=units,
                target=chr(ord("A") + units.index(unit)),
                id=quantity,
            )
            for quantity, unit in UNITS.items()
        ]
    )


@task
def units(shuffle: bool = False):
    return Task(
        dataset=read_dataset(),
        solver=[system_message("You know physics."), multiple_choice(shuffle=shuffle)],
        scorer=choice(),
    )
