"""Comparing the variants of a run, or those of several runs, as one family of comparisons."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from labrunner.analysis.comparing.comparison import Comparison, compare_all
from labrunner.analysis.comparing.family import join_family
from labrunner.analysis.comparing.pairing import Arm
from labrunner.analysis.describing.figures import Figures, compute_all
from labrunner.analysis.judging.cautions import (
    INTERIM,
    ONLY_AT_THE_END,
    Caution,
    about_agents,
    about_losses,
    about_rates,
    about_replay,
)
from labrunner.analysis.judging.declarations import about_declarations
from labrunner.analysis.judging.requirements import (
    NOTHING,
    Requirements,
    find_notes,
    find_unmet,
    refuse_unknown,
)
from labrunner.analysis.judging.retryshift import RetryShift, report_retries
from labrunner.errors import InputError
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Agent
from labrunner.runner.reports.likeness import PairBy, tell_differences
from labrunner.runner.reports.results import Results, read_checked_results, tell_notes
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import address
from labrunner.store.reading.run_state import read_state

MADE_ID: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_.+_([0-9A-Za-z]{8})")
"""The id that a run gets unless somebody chooses one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Arms of one or more runs, and what comparing them found."""

    arms: tuple[Arm, ...]
    figures: tuple[Figures, ...]
    """One for each arm, named like it."""
    comparisons: tuple[Comparison, ...]
    retry_shift: RetryShift | None
    cautions: tuple[tuple[str, Caution], ...] = ()
    """Trials that are missing or were marked, agents that seem never to have run, runs that go on; each with
    what to write for its run."""
    agents: tuple[tuple[str, Agent], ...] = ()
    """Arms whose agents are known by name."""
    differences: tuple[str, ...] = ()
    """What is not the same about the tasks of the runs, in sentences."""
    shared: tuple[str, ...] = ()
    """Which of the runs replay which, in sentences: they are one sample."""
    unmet: tuple[str, ...] = ()
    """What is required and not met, in sentences."""
    notes: tuple[str, ...] = ()
    """What to know beside what is required, met or not."""


def compare_runs(
    runs: Sequence[RunPaths],
    *,
    baseline: str | None = None,
    pair_by: PairBy = "content",
    requirements: Requirements = NOTHING,
) -> Contest:
    """Read runs and compare their variants, with whatever pairs are required, as one family.

    Raises InputError when there is nothing to compare.
    """
    labels = label_runs([paths.root.name for paths in runs])
    results = [read_checked_results(paths) for paths in runs]
    prefixes = [f"{label}:" if len(runs) > 1 else "" for label in labels]
    by_run = [
        each.arms(prefix=prefix, pair_by=pair_by) for each, prefix in zip(results, prefixes, strict=True)
    ]
    arms = tuple(arm for each in by_run for arm in each)
    figures = tuple(
        figure
        for each, prefix in zip(results, prefixes, strict=True)
        for figure in _name_figures(each, prefix)
    )
    refuse_unknown(requirements, [arm.name for arm in arms])
    pairs = choose_pairs(by_run, baseline)
    if requirements.pairs and baseline is not None:
        _refuse_other_family(pairs, choose_pairs(by_run, None), baseline)
    comparisons = compare_all(join_family(pairs, arms, requirements.pairs))
    shift = report_retries(
        list(zip(arms, figures, strict=True)),
        {other.name: first.name for first, other in pairs},
        margin=min(each.experiment.retry_margin for each in results),
    )
    shared = tuple(_find_shared(results, labels))
    return Contest(
        arms=arms,
        agents=tuple(
            (f"{prefix}{variant.id}", variant.agent)
            for each, prefix in zip(results, prefixes, strict=True)
            for variant in each.experiment.variants
            if variant.agent.named is not None
        ),
        differences=tuple(tell_differences(labels, [each.experiment for each in results], pair_by)),
        shared=shared,
        figures=figures,
        comparisons=comparisons,
        retry_shift=shift,
        unmet=(shared if requirements.pairs else ()) + find_unmet(requirements, figures, shift, comparisons),
        notes=tell_notes(runs, requirements, find_notes(requirements, figures, shift)),
        cautions=(
            *(
                (address(paths), _name_caution(caution, prefix))
                for paths, each, prefix in zip(runs, results, prefixes, strict=True)
                for caution in _find_cautions(each, is_over=read_state(paths) != "started")
            ),
            *((labels[0], caution) for caution in (about_rates(shift) if shift else ())),
        ),
    )


def _name_caution(caution: Caution, prefix: str) -> Caution:
    """The same for one of several runs; one about a run as a whole names it by its prefix."""
    if caution.variant_id is None:
        return replace(caution, text=f"{prefix} {caution.text}" if prefix else caution.text)
    return replace(caution, variant_id=f"{prefix}{caution.variant_id}")


def _refuse_other_family(
    chosen: Sequence[tuple[Arm, Arm]], usual: Sequence[tuple[Arm, Arm]], baseline: str
) -> None:
    """Raise InputError where a baseline would change what requirements are judged among."""
    asked, own = ({frozenset((a.name, b.name)) for a, b in pairs} for pairs in (chosen, usual))
    if asked != own:
        raise InputError(
            "--baseline",
            f"{baseline!r} would change which comparisons {flag('require')} is judged among, and so its "
            f"answer; leave --baseline out: a requirement names what it compares with",
        )


def _find_cautions(results: Results, *, is_over: bool) -> Iterator[Caution]:
    if not is_over:
        yield Caution(kind="interim", variant_id=None, text=INTERIM)
    losses = about_losses(_name_figures(results, ""))
    yield from (each for each in losses if is_over or each.kind not in ONLY_AT_THE_END)
    yield from about_declarations(list(results.tally.variants.values()))
    yield from about_agents(results.conduct, results.conduct.suspicions())
    yield from about_replay(results.replay)


def _find_shared(results: Sequence[Results], labels: Sequence[str]) -> Iterator[str]:
    """Say which runs have the answers of the same calls: by replaying one of them, or the same third one."""
    known: dict[str, str] = {}
    for each, label in zip(results, labels, strict=True):
        known.setdefault(PurePath(each.replay or each.run_id).name, label)
    for each, label in zip(results, labels, strict=True):
        other = known.get(PurePath(each.replay).name) if each.replay is not None else None
        if other is not None and other != label:
            yield f"{label} and {other} have the same recorded answers: they can't be held against each other"


def label_runs(run_ids: Sequence[str]) -> list[str]:
    """Names that tell runs apart: the random end of ids that we made, and whole ids that people chose."""
    if len(set(run_ids)) < len(run_ids):
        raise InputError("RUN", "a run is named twice; its variants are compared when it is named alone")
    ends = [found[1] if (found := MADE_ID.fullmatch(run_id)) else run_id for run_id in run_ids]
    return ends if len(set(ends)) == len(ends) else list(run_ids)


def choose_pairs(runs: Sequence[Sequence[Arm]], baseline: str | None) -> list[tuple[Arm, Arm]]:
    """Which arms are compared, the baseline first in each pair.

    Runs with the same variants are compared variant by variant, the first run being the baseline.
    """
    arms = [arm for run in runs for arm in run]
    if len(arms) < 2:
        only = ", ".join(arm.name for arm in arms)
        raise InputError("RUN", f"the run has one variant ({only}); name a second run to compare it with")
    if baseline is not None:
        first = _find_arm(arms, baseline)
        return [(first, arm) for arm in arms if arm is not first]
    if len(runs) > 1 and len({tuple(arm.variant_id for arm in run) for run in runs}) == 1:
        return [pair for run in runs[1:] for pair in zip(runs[0], run, strict=True)]
    return [(arms[0], arm) for arm in arms[1:]]


def _find_arm(arms: Sequence[Arm], name: str) -> Arm:
    found = [arm for arm in arms if name in {arm.name, arm.variant_id}]
    if len(found) == 1:
        return found[0]
    known = ", ".join(arm.name for arm in arms)
    trouble = "fits several" if found else "fits none"
    raise InputError("--baseline", f"{name!r} {trouble} of: {known}")


def _name_figures(results: Results, prefix: str) -> list[Figures]:
    figures = compute_all(
        results.tally,
        results.planned,
        expense=results.expense,
        population=results.experiment.population,
    )
    return [replace(each, variant_id=f"{prefix}{each.variant_id}") for each in figures]
