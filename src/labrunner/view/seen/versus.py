"""Two variants or two runs, task by task, for the page that compares them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import msgspec

from labrunner.analysis.comparing.comparison import Comparison
from labrunner.analysis.comparing.flips import Flip
from labrunner.analysis.judging.sentences import describe
from labrunner.runner.reports.comparing import Contest, compare_runs, label_runs
from labrunner.view.seen.figuring import Signature
from labrunner.view.seen.lookout import Lookout, sign_of

MOST_CONTESTS: Final = 8


@dataclass(slots=True)
class Contests:
    """Comparisons of runs that have not changed since they were made."""

    _known: dict[object, tuple[tuple[Signature, ...], Contest]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def hold(self, lookout: Lookout, names: Sequence[str], baseline: str | None) -> dict[str, object]:
        """Compare runs, by their folders' names; one alone by its variants."""
        runs, key = [lookout.find(name) for name in names], (tuple(names), baseline)
        signs = tuple(map(sign_of, runs))
        with self._lock:
            known = self._known.get(key)
            if known is None or known[0] != signs:
                if len(self._known) >= MOST_CONTESTS:
                    self._known.clear()
                known = self._known[key] = (signs, compare_runs(runs, baseline=baseline))
        return _plain(known[1], names)


def _plain(contest: Contest, names: Sequence[str]) -> dict[str, object]:
    labels = dict(zip(label_runs(names), names, strict=True))
    return {
        "runs": names,
        "arms": [arm.name for arm in contest.arms],
        "comparisons": [_plain_pair(each, labels) for each in contest.comparisons],
        "differences": contest.differences,
        "warnings": [f"{run}: {caution}" for run, caution in contest.cautions],
    }


def _plain_pair(each: Comparison, labels: Mapping[str, str]) -> dict[str, object]:
    answer = each.answer
    return {
        "baseline": each.baseline,
        "other": each.other,
        "baseline_run": find_run_of(each.baseline, labels),
        "other_run": find_run_of(each.other, labels),
        "measure": each.measure,
        "better": each.better,
        "conclusion": each.conclusion,
        "says": describe(each),
        "baseline_mean": each.baseline_mean,
        "other_mean": each.other_mean,
        "difference": each.difference,
        "low": answer.interval.low if answer else None,
        "high": answer.interval.high if answer else None,
        "reach": each.reach,
        "tasks": each.tasks,
        "wins": each.wins,
        "ties": each.ties,
        "losses": each.losses,
        "up": _plain_flips(each.up),
        "down": _plain_flips(each.down),
        "errors": msgspec.to_builtins(each.errors) if each.errors else None,
    }


def _plain_flips(flips: Sequence[Flip]) -> list[object]:
    return [msgspec.to_builtins(flip) for flip in flips]


def find_run_of(arm: str, labels: Mapping[str, str]) -> str:
    """The run whose variant an arm is: where there are several, its name begins with the run's label."""
    if len(labels) == 1:
        return next(iter(labels.values()))
    fitting = [label for label in labels if arm.startswith(f"{label}:")]
    return labels[max(fitting, key=len)]
