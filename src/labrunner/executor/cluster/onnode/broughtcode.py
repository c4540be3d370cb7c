"""A run's own code on a node: a copy of what was delivered, and who carries attempts out by it."""

import shutil
from typing import Final

from labrunner.executor.cargo import Delivered, make_carrier
from labrunner.executor.cluster.onnode.nodeplace import NodePlace, RunPlace
from labrunner.executor.cluster.tidings import Charge
from labrunner.executor.door import Executor
from labrunner.files.strangers.removal import remove_tree
from labrunner.sandbox import registry
from labrunner.trial.assignment import TrialContext

CODE: Final = "code"


def bring_carrier(charge: Charge, place: NodePlace, run: RunPlace, context: TrialContext) -> Executor | None:
    """Make who carries attempts out by code that was delivered; None where the run has none.

    It works in a copy: whatever such code writes beside itself is in nobody else's parcel.
    """
    told = charge.carrier
    if told is None:
        return None
    folder = run.folder / CODE
    remove_tree(folder)
    shutil.copytree(place.parcel(told.parcel), folder)
    delivered = Delivered(words=told.words, folder=folder.resolve())
    return make_carrier(told.name, context, registry.remember(), delivered)
