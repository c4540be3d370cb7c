"""Finding what an earlier sitting left under way, and handing it to this one as work."""

from labrunner.executor.door import Executor, find_places
from labrunner.experiment.schedule import Schedule
from labrunner.files.host import boot_id
from labrunner.runner.leftovers.resumption import Resumption, Situation, plan_resumption
from labrunner.runner.plan import Plan, Work
from labrunner.store.buffering.attempts import AttemptNote
from labrunner.store.writing.writer import RunWriter
from labrunner.trial.assignment import Assignment


async def resume(plan: Plan, writer: RunWriter, executor: Executor) -> Resumption:
    """See what the last sitting left under way; what nobody can take up is removed, its folders stay.

    Raises while a sandbox's engine does not answer: nothing is declared cut off on a guess.
    """
    if (places := find_places(executor)) is not None and all(note.node for note in writer.opening.in_flight):
        places.expect(frozenset(note.node for note in writer.opening.in_flight if note.node))
    survivors = await executor.survivors() if writer.opening.in_flight else ()
    situation = _Look(plan, executor, has_rebooted=writer.opening.has_rebooted)
    resumption = plan_resumption(writer.opening.failed, writer.opening.in_flight, survivors, situation)
    if writer.opening.is_crash or writer.opening.in_flight:
        await executor.reap(frozenset(adoption.note.token for adoption in resumption.adoptions))
    return resumption


class _Look:
    """Tells what kind of sandbox and grader an attempt had."""

    def __init__(self, plan: Plan, executor: Executor, *, has_rebooted: bool) -> None:
        self._plan = plan
        self._executor = executor
        self._has_rebooted = has_rebooted
        self._boot_id = boot_id()

    def __call__(self, note: AttemptNote) -> Situation:
        slot = self._plan.schedule.slot(note.schedule_idx)
        assignment = Assignment(token=note.token, slot=slot, trial_id=note.trial_id, attempt=note.attempt)
        return Situation(
            outlives_runner=self._executor.outlives_runner(assignment),
            repeatable_grader=self._plan.experiment.tasks[slot.task_idx].grader.repeatable,
            has_rebooted=self._has_rebooted,
            boot_id=self._boot_id,
        )


def take_up(left: Resumption, schedule: Schedule) -> tuple[Work, ...]:
    """The work that takes up the attempts that live on, or whose agents had ended."""
    return tuple(
        Work(
            slot=schedule.slot(adoption.note.schedule_idx),
            history=left.histories.get(adoption.note.schedule_idx, ()),
            token=adoption.note.token,
            survivor=adoption.survivor,
        )
        for adoption in left.adoptions
    )
