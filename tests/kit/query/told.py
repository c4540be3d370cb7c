"""What became of the trials of a run that queries are asked about."""

from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from labrunner.records.completion import FileRef
from tests.kit.made_runs import Told

EVENTS = FileRef(path="state/events.jsonl", digest="sha256:" + "0" * 64, size=1)


def script(slot: Slot) -> Told | None:
    if slot.schedule_idx == 9:
        return None
    if slot.schedule_idx == 4:
        return Told(value=None, errors=(Cause.SANDBOX, Cause.PROVIDER))
    return Told(
        value=float(slot.variant_idx),
        errors=(Cause.PROVIDER,) * (slot.schedule_idx == 6),
        metrics={"steps": slot.schedule_idx, "fast": True, "why": "it's", "gone": None},
        prediction=f"answer {slot.schedule_idx}",
        usage={"tokens": 100, "cost_usd": 0.5},
        agent_s=2.0,
        logs=(EVENTS,),
    )
