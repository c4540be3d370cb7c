"""Which pairs are compared together: what is shown, and what somebody requires beside it.

Rule: they are one family, so that no answer is told twice in two ways. A pair is one comparison, whichever
side it is named from.
"""

from collections.abc import Sequence

from labrunner.analysis.comparing.pairing import Arm


def join_family(
    shown: Sequence[tuple[Arm, Arm]], arms: Sequence[Arm], named: Sequence[tuple[str, str]]
) -> list[tuple[Arm, Arm]]:
    """Pairs that are shown, then those of `named` that are not among them; a baseline first in each."""
    by_name = {arm.name: arm for arm in arms}
    family = {frozenset((baseline.name, other.name)): (baseline, other) for baseline, other in shown}
    for baseline, other in named:
        family.setdefault(frozenset((baseline, other)), (by_name[baseline], by_name[other]))
    return list(family.values())
