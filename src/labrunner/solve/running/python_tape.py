"""The recorded calls that answer those of a Python task's attempt: `--replay`."""

from collections.abc import Sequence

from labrunner.errors import DamagedRun
from labrunner.files.durable import storing
from labrunner.gateway.recording.calljournal import read_calls
from labrunner.gateway.replaying.spoken import SpokenCall, SpokenTape, join_spoken
from labrunner.records.facts.transcript_events import Event, read_events
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.trial.assignment import AttemptScene
from labrunner.trial.tapes import find_tapes


def open_spoken(scene: AttemptScene) -> SpokenTape | None:
    """What answers in a provider's place; None where nothing is replayed. Raises DamagedRun, StoreError."""
    policy = scene.context.experiment.policy
    if policy.replay is None:
        return None
    calls, cap = list[SpokenCall](), None
    # An attempt that was cut off is set aside only when this one has something to leave.
    left = [scene.folders.root] if policy.replay_mode == "reuse" and scene.folders.root.is_dir() else []
    for folder in (*left, *find_tapes(scene)):
        path = folder / TRANSCRIPT
        with storing("reading", path):
            data = path.read_bytes() if path.exists() else b""
        try:
            events = read_events(data)
            calls += join_spoken(read_calls(folder), events)
        except (ValueError, KeyError) as error:
            raise DamagedRun(f"reading {path}: {error!r}; try: lab verify") from error
        cap = cap or _find_cap(events)
    return SpokenTape(mode=policy.replay_mode, calls=calls, cap=cap)


def _find_cap(events: Sequence[Event]) -> str | None:
    told = (event for event in events if event["event"] == "limit" and event["limit"] == "cost")
    return next((str(event["message"]) for event in told), None)
