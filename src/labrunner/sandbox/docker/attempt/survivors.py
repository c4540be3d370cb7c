"""Containers that a crashed runner left, and how far each has come: found by label, judged by its own notes.

Only containers of the very run directory are looked at. How far one is follows from what the runner before
us wrote down at the barrier, from the wrapper's certain notes, and from the engine's state; a note that
an agent could have forged decides nothing but what is waited for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.sandbox.docker.attempt.container import make_nonce
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.labels import KEPT, PLACE, Tag, has_rebooted, read_tag
from labrunner.sandbox.docker.engine.replies import ContainerState, Listed
from labrunner.sandbox.docker.watching.sightings import BarrierRecord, read_record
from labrunner.sandbox.docker.wrapper.notes import Note, read_note
from labrunner.sandbox.docker.wrapper.testimony import check_note, doubt
from labrunner.sandbox.door import AttemptFolders, Survivor, SurvivorPhase
from labrunner.sandbox.marks import Mark, RunMark
from labrunner.sandbox.paths import AGENTLAB

LEAVING: Final = frozenset({404, 409})
"""What an engine says of a container that is gone, or just being removed: others of the run come and go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """One attempt's containers: the newest is the one that counts."""

    mark: Mark
    tag: Tag
    id: str
    ids: tuple[str, ...]
    state: ContainerState
    record: BarrierRecord | None
    note: Note
    life: int


async def list_own(engine: Engine, run: RunMark, *, kept: bool = False) -> list[tuple[Listed, Tag]]:
    """Containers of this very run; those that were kept for a look only when asked for."""
    listed = await engine.list(f"{PLACE}={run.place}")
    tagged = [(each, tag) for each in listed if (tag := read_tag(each, run)) is not None]
    return [(each, tag) for each, tag in tagged if kept or not each.name.startswith(KEPT)]


async def find_left(engine: Engine, run: RunMark) -> list[Left]:
    """Everything that is left of a run, one entry for each dispatch."""
    groups: dict[str, list[tuple[Listed, Tag]]] = {}
    for each, tag in await list_own(engine, run):
        if tag.mark is not None:
            groups.setdefault(tag.mark.token, []).append((each, tag))
    found = [await _examine(engine, group) for group in groups.values()]
    return [left for left in found if left is not None]


async def _examine(engine: Engine, group: list[tuple[Listed, Tag]]) -> Left | None:
    # A container made for the grader replaces the one in which the agent ran.
    listed, tag = max(group, key=lambda pair: pair[1].role == "grader")
    try:
        return await _look_closely(engine, listed, tag, group)
    except EngineRefused as refusal:
        if refusal.status in LEAVING:
            return None
        raise


async def _look_closely(
    engine: Engine, listed: Listed, tag: Tag, group: list[tuple[Listed, Tag]]
) -> Left | None:
    state = await engine.look(listed.id)
    if tag.mark is None:
        return None
    folders = AttemptFolders(root=Path(state.mounts[AGENTLAB]))
    record = read_record(folders)
    life = record.restarts if record is not None else 0
    note = read_note(folders.ctl, make_nonce(tag.nonce, life))
    if tag.is_shared and tag.role == "attempt" and life == 0:
        note = doubt(note, is_alive=state.is_alive)
    if record is None and state.status != "created":
        note = await check_note(engine, listed.id, note)
    return Left(
        mark=tag.mark,
        tag=tag,
        id=listed.id,
        ids=tuple(each.id for each, _ in sorted(group, key=lambda pair: pair[1].role == "grader")),
        state=state,
        record=record,
        note=note,
        life=life,
    )


def judge(left: Left) -> Survivor:
    """Say how far an attempt has come."""
    phase, tries = judge_phase(left.state, left.note, left.record)
    if has_rebooted(left.state.labels):
        phase, tries = judge_after_reboot(phase, left.note, left.record)
    return Survivor(
        token=left.mark.token,
        trial_id=left.mark.trial_id,
        attempt=left.mark.attempt,
        phase=phase,
        is_alive=left.state.is_alive,
        grader_tries=tries,
        ids=left.ids,
    )


def judge_phase(state: ContainerState, note: Note, record: BarrierRecord | None) -> tuple[SurvivorPhase, int]:
    """How far, and how many graders' answers or runs are there to be taken over."""
    if note.is_certain:
        return _judge_certain(state, note)
    if record is not None:
        is_over = record.run.agent is None or record.run.wrapper_killed
        return ("exited" if is_over else "barrier"), 0
    if state.status == "created" or note.phase == "none":
        return "not_begun", 0
    if state.is_alive or state.oom_killed:
        return ("agent" if note.phase == "agent" else "setup"), 0
    return "died", 0


def judge_after_reboot(
    phase: SurvivorPhase, note: Note, record: BarrierRecord | None
) -> tuple[SurvivorPhase, int]:
    """The same where only what was synced can be trusted: what an agent left is, once there is a record."""
    if record is None:
        return ("not_begun" if phase == "not_begun" else "died"), 0
    if note.phase == "graded":
        return "grader", 0  # its answer may be gone
    return phase, 0


def _judge_certain(state: ContainerState, note: Note) -> tuple[SurvivorPhase, int]:
    by_word: Mapping[str, SurvivorPhase] = {"barrier": "barrier", "failed": "exited", "graded": "exited"}
    if note.phase == "grader":
        return "grader", note.tries if state.is_alive else 0
    return by_word.get(note.phase, "barrier"), note.tries
