"""What of a finished attempt goes, by policy, and what a runner that died could not throw away any more.

Between a commit and the removal of what is not kept, a runner may be killed. The next owner of the run does
what it left undone: looks at each finished trial's folders once, and throws away what neither the policy that
the run began with nor the one that it has now would keep.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from labrunner.executor.door import Discard
from labrunner.experiment import codec
from labrunner.experiment.run_policy import Keep, KeepPolicy
from labrunner.files.layering.layernote import LAYER, LAYER_PART
from labrunner.files.strangers.removal import gone_name
from labrunner.records.encoding.ids import make_token
from labrunner.records.glance import TrialGlance
from labrunner.runner.plan import Plan
from labrunner.sandbox.door import AttemptFolders
from labrunner.store.reading.survey import survey
from labrunner.store.rows.single_records import read_run
from labrunner.trial.assignment import Assignment

SANDBOX_ONLY: Final = Discard(workspace=False, logs=False)
"""What goes of an attempt that was not the last: its files stay as evidence."""


def choose_leavings(plan: Plan, verdict: str | None, keep: KeepPolicy | None = None) -> Discard:
    """What goes of a trial's last attempt, by the plan's policy or another."""
    keep, is_good = keep or plan.experiment.policy.keep, verdict == "pass"
    return Discard(
        workspace=_drops(keep.workspace, is_good),
        logs=_drops(keep.logs, is_good),
        sandbox=is_good or not plan.keep_sandbox,
    )


def _drops(keep: Keep, is_good: bool) -> bool:
    return keep == "never" or (keep == "failed" and is_good)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreleased:
    """An attempt of which more is left than policy keeps."""

    assignment: Assignment
    drop: Discard


def find_unreleased(plan: Plan) -> list[Unreleased]:
    """Look for what a runner that died left of finished attempts; what was taken over is left alone."""
    began_with = codec.from_record(read_run(plan.paths).experiment, ()).policy.keep
    policies = (began_with, plan.experiment.policy.keep)
    with survey(plan.paths) as seen:
        return [
            unreleased
            for row in seen.trials()
            if not plan.is_reused(row.schedule_idx)
            for unreleased in _look_at(row, plan, policies)
        ]


def _look_at(row: TrialGlance, plan: Plan, policies: tuple[KeepPolicy, ...]) -> Iterator[Unreleased]:
    each = [choose_leavings(plan, row.verdict, keep) for keep in policies]
    last = Discard(
        workspace=all(drop.workspace for drop in each),
        logs=all(drop.logs for drop in each),
        sandbox=all(drop.sandbox for drop in each),
    )
    for fact in row.attempts:
        drop = last if fact is row.attempts[-1] else SANDBOX_ONLY
        folders = AttemptFolders(root=plan.paths.attempt(row.ids.trial_id, fact.attempt))
        if _is_left(folders, drop):
            yield Unreleased(
                assignment=Assignment(
                    token=make_token(),
                    slot=plan.schedule.slot(row.schedule_idx),
                    trial_id=row.ids.trial_id,
                    attempt=fact.attempt,
                ),
                drop=drop,
            )


def _is_left(folders: AttemptFolders, drop: Discard) -> bool:
    layers = (folders.root / name for name in (LAYER, LAYER_PART))
    work = (folders.workspace, gone_name(folders.workspace), *layers)
    return (
        (drop.workspace and any(path.exists() for path in work))
        or (drop.logs and folders.logs.exists())
        or (drop.sandbox and (folders.ctl.exists() or folders.agent_mount.exists()))
    )
