"""What bends or weakens a run's figures, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Final

from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.describing.variance import ALPHA
from labrunner.analysis.judging.numbers import write_number
from labrunner.analysis.judging.outage import Outage
from labrunner.analysis.judging.retryshift import RetryShift
from labrunner.analysis.sums.conduct import SYSTEM_CHANGED, Conduct, Suspicion, VariantConduct
from labrunner.experiment.options.table import flag
from labrunner.policy.budget import Budget, describe_unheard, limits_of
from labrunner.records.facts.call_usage import UNPRICED

LOW_COVERAGE: Final = 0.95
FEW_GROUPS: Final = 10
ONLY_AT_THE_END: Final = frozenset({"coverage", "ungraded", "ragged"})
"""Kinds that are nothing to worry about while a run goes on."""
INTERIM: Final = "interim: an interval looked at while a run goes on is not valid for deciding when to stop"
NAMED_PATHS: Final = 3
NAMED_REASONS: Final = 3
LONGEST_REASON: Final = 120
COMMAND_NOT_FOUND: Final = "command_not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """One thing to beware of."""

    kind: str
    variant_id: str | None
    """None when it is about the run."""
    text: str
    trial_id: str | None = None
    """A trial that shows it."""

    def __str__(self) -> str:
        """The sentence, with whom it is about."""
        return self.text if self.variant_id is None else f"{self.variant_id}: {self.text}"


def describe_caution(caution: Caution, run: str) -> str:
    """The sentence with what to type to see for oneself; `run` is how the run is called there."""
    return str(caution) if caution.trial_id is None else f"{caution}; see: lab show {run} {caution.trial_id}"


def find_cautions(
    figures: Sequence[Figures],
    shift: RetryShift | None,
    outage: Outage | None,
    budget: Budget | None = None,
    conduct: Conduct | None = None,
    replay: str | None = None,
) -> tuple[Caution, ...]:
    """Everything that a reader of these figures should know."""
    suspicions = conduct.suspicions() if conduct is not None else {}
    agents = conduct.variants if conduct is not None else {}
    found = [
        caution
        for each in figures
        for caution in _about(each, agents.get(each.variant_id))
        if caution.text and not (caution.kind == COMMAND_NOT_FOUND and each.variant_id in suspicions)
    ]
    if conduct is not None:
        found.extend(about_agents(conduct, suspicions))
        found.extend(_about_files(conduct))
    if shift is not None:
        found.extend(about_rates(shift))
    if outage is not None:
        found.append(Caution(kind="outage", variant_id=None, text=_describe_outage(outage)))
    if budget is not None:
        found.extend(_about_budget(figures, budget))
    found.extend(about_replay(replay))
    return tuple(found)


def about_replay(replay: str | None) -> Iterator[Caution]:
    """Say of a run that replays another one that the two are one sample."""
    if replay is not None:
        text = (
            f"replays {PurePath(replay).name}: models answered what is recorded there, so its trials are "
            "no sample of their own; of the two runs only one counts"
        )
        yield Caution(kind="replayed", variant_id=None, text=text)


def about_agents(conduct: Conduct, suspicions: Mapping[str, Suspicion]) -> Iterator[Caution]:
    """Name variants whose agents seem never to have run, or say so themselves."""
    for name, each in suspicions.items():
        text = f"{'; '.join(each.facts)}; none of these passed: did they really run?"
        yield Caution(kind="never_ran", variant_id=name, text=text, trial_id=each.trial_id)
    for name, agents in conduct.variants.items():
        if agents.errors:
            says = "agent says" if agents.errors == 1 else "agents say"
            text = f'{agents.errors:,} {says} `outcome: "error"` in their result; graded as they stood'
            yield Caution(kind="agent_errors", variant_id=name, text=text, trial_id=agents.first_error)


def about_marked(figures: Sequence[Figures]) -> Iterator[Caution]:
    """Name variants of which trials were marked as not to be used: whoever marks failures raises a mean."""
    for each in figures:
        if text := _about_invalidated(each):
            first = each.marks[0].first
            yield Caution(kind="invalidated", variant_id=each.variant_id, text=text, trial_id=first)


def about_losses(figures: Sequence[Figures]) -> Iterator[Caution]:
    """Name variants whose means speak of fewer trials, or of fewer tasks, than were planned."""
    yield from about_marked(figures)
    for each in figures:
        for kind, text in (("coverage", _about_coverage(each)), ("ungraded", _about_lost_tasks(each))):
            if text:
                yield Caution(kind=kind, variant_id=each.variant_id, text=text)


def _about_files(conduct: Conduct) -> Iterator[Caution]:
    """Name variants whose agents wrote secrets down, or left what could not be kept."""
    for name, each in conduct.variants.items():
        if each.leaks:
            text = f"secrets were found in what {_count(each.leaks, 'trial')} left, and masked"
            yield Caution(kind="masked", variant_id=name, text=text, trial_id=each.first_leak)
        if each.incomplete:
            text = f"of {_count(each.incomplete, 'trial')} not every file could be kept"
            yield Caution(kind="dropped", variant_id=name, text=text, trial_id=each.first_incomplete)


def _about(figures: Figures, agents: VariantConduct | None) -> Iterator[Caution]:
    for kind, text in _about_figures(figures):
        yield Caution(kind=kind, variant_id=figures.variant_id, text=text)
    yield from about_marked([figures])
    yield _about_system(figures, agents)


def _about_figures(figures: Figures) -> Iterator[tuple[str, str]]:
    yield "errors", _about_errors(figures)
    yield "retries", f"{_count(figures.retried, 'trial')} needed a retry" if figures.retried else ""
    yield "few_groups", _about_groups(figures)
    yield "coverage", _about_coverage(figures)
    yield "ungraded", _about_lost_tasks(figures)
    yield "ragged", _about_replications(figures)
    yield "adopted", _about_adoptions(figures)
    yield "cut_off", _about_cut_offs(figures)
    yield "edited", _about_edits(figures)
    yield "command_not_found", _about_commands(figures)
    yield "unpriced", _about_prices(figures)


def _about_errors(figures: Figures) -> str:
    if not figures.errors:
        return ""
    causes = ", ".join(f"{cause} {count}" for cause, count in figures.causes.items())
    told = f"{_count(figures.errors, 'trial')} without a grade ({causes}), left out of the mean"
    if figures.lower is None or figures.upper is None or figures.scale is None:
        return told
    low, high = figures.scale
    more = ", with what else has none," if figures.missing or figures.invalidated else ""
    return f"{told}; counted as {low:g} or as {high:g}{more} it is {figures.lower:.3f} to {figures.upper:.3f}"


def _about_groups(figures: Figures) -> str:
    interval = figures.interval
    if interval is None or "groups" not in interval.method or interval.units >= FEW_GROUPS:
        return ""
    return f"an interval over only {interval.units} groups is rough"


def _about_coverage(figures: Figures) -> str:
    if figures.coverage is None or figures.coverage >= LOW_COVERAGE:
        return ""
    share = f"{100 * figures.coverage:.0f}%"
    return f"only {share} of the planned trials are graded ({figures.graded:,} of {figures.planned:,})"


def _about_lost_tasks(figures: Figures) -> str:
    if not figures.ungraded_tasks or not figures.graded:  # without any mean there is nothing to misread
        return ""
    named = ", ".join(figures.first_ungraded[:3]) + (", ..." if figures.ungraded_tasks > 3 else "")
    count = _count(figures.ungraded_tasks, "task")
    return f"{count} without any graded trial, so the mean speaks of the others only ({named})"


def _about_replications(figures: Figures) -> str:
    if figures.fewest_graded == figures.most_graded:
        return ""
    return (
        f"tasks have {figures.fewest_graded} to {figures.most_graded} graded trials; "
        "each weighs the same in the mean"
    )


def _about_adoptions(figures: Figures) -> str:
    if not figures.adopted:
        return ""
    return f"{_count(figures.adopted, 'attempt')} went on after the runner had died, and were adopted"


def _about_cut_offs(figures: Figures) -> str:
    if not figures.cut_off:
        return ""
    told = f"{_count(figures.cut_off, 'attempt')} cut off by a crash, a stop or an outage and run again"
    return f"{told}; of what they used only recorded calls are counted"


def _about_edits(figures: Figures) -> str:
    if not figures.edited:
        return ""
    return f"{_count(figures.edited, 'trial')} made by earlier code, taken over with {flag('reuse_edited')}"


def _about_system(figures: Figures, agents: VariantConduct | None) -> Caution:
    """Tell of agents that changed the system, where their trials were judged, and what was changed in one."""
    renewed = agents.renewed if agents is not None else 0
    in_place = figures.flags.get(SYSTEM_CHANGED, 0) - renewed
    known = agents.first_changed if agents is not None else None
    trial_id, lines = known or (None, "")
    paths = lines.splitlines()
    named = ", ".join(paths[:NAMED_PATHS]) + (", ..." if len(paths) > NAMED_PATHS else "")
    told = f" ({named})" if named else ""
    texts = []
    if in_place:
        texts.append(
            f"in {_count(in_place, 'trial')} the agent changed the system that the grader ran in{told}"
        )
    if renewed:
        texts.append(
            f"{_count(renewed, 'trial')} judged in a fresh container, because the agent changed the "
            f"system{told}; if the work of these tasks lies there, set on_system_change: flag"
        )
    return Caution(
        kind=SYSTEM_CHANGED, variant_id=figures.variant_id, text="; ".join(texts), trial_id=trial_id
    )


def _about_commands(figures: Figures) -> str:
    lost = figures.flags.get(COMMAND_NOT_FOUND, 0)
    if not lost:
        return ""
    return f"{_count(lost, 'agent')} exited with 126 or 127, as where a command is not found"


def _about_invalidated(figures: Figures) -> str:
    if not figures.invalidated:
        return ""
    told = f"{_count(figures.invalidated, 'trial')} marked as not to be used, left out of all but the bounds"
    if figures.with_marked is not None:
        them = "it" if figures.invalidated == 1 else "them"
        told += f"; with {them} the mean would be {write_number(figures.with_marked)}"
    reasons = ", ".join(f'"{_clip(mark.reason)}" ({mark.trials:,})' for mark in figures.marks[:NAMED_REASONS])
    more = len(figures.marks) - NAMED_REASONS
    return f"{told}; why: {reasons}" + (f", and {_count(more, 'further reason')}" if more > 0 else "")


def _clip(reason: str) -> str:
    """One line of what somebody wrote."""
    line = " ".join(reason.split())
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."


def _about_prices(figures: Figures) -> str:
    unpriced = figures.expense.get(UNPRICED)
    if unpriced is None:
        return ""
    calls = _count(int(unpriced.total), "call")
    return f"{calls} to models without a price: it spent more than is told; say it in `models: … prices`"


def _about_budget(figures: Sequence[Figures], budget: Budget) -> Iterator[Caution]:
    """Name limits that can't hold, because nobody reports what they limit, or because a variant does not."""
    graded = [each for each in figures if each.graded]
    for name in limits_of(budget):
        silent = [each for each in graded if name not in each.expense]
        if graded and len(silent) == len(graded):
            yield Caution(kind="budget", variant_id=None, text=describe_unheard(budget, [name]))
            continue
        for each in silent:
            text = f"no attempt reports `{name}`, so the budget does not count them"
            yield Caution(kind="budget", variant_id=each.variant_id, text=text)


def about_rates(shift: RetryShift) -> Iterator[Caution]:
    """Name variants that needed more retries, or fewer, than what they are compared with."""
    known = {each.variant_id: each for each in shift.variants}
    for each in shift.variants:
        baseline = known.get(each.rate_baseline or "")
        if baseline is not None and each.rate_p is not None and each.rate_p < ALPHA:
            text = (
                f"{100 * each.rate:.1f}% of its trials needed a retry, {100 * baseline.rate:.1f}% of "
                f"{baseline.variant_id}'s (p = {each.rate_p:.3g}): comparing them is suspect"
            )
            yield Caution(kind="retry_rates", variant_id=each.variant_id, text=text)


def _describe_outage(outage: Outage) -> str:
    began, ended = (_clock(seconds) for seconds in (outage.began_at, outage.ended_at))
    return (
        f"{outage.trials} agents in a row, on {outage.tasks} tasks, ended within "
        f"{outage.longest_agent_s:.3g} s without passing, between {began} and {ended}: was there an outage?"
    )


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
