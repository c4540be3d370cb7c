"""A run's results, read from its files and analysed, for `show`, `compare`, exports and `--require`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePath

from labrunner.analysis.comparing.family import join_family
from labrunner.analysis.comparing.pairing import Arm
from labrunner.analysis.judging.cautions import INTERIM
from labrunner.analysis.judging.requirements import Requirements, find_notes, find_unmet, refuse_unknown
from labrunner.analysis.report import make_arms
from labrunner.analysis.summary import read_report, summarise
from labrunner.analysis.sums.conduct import Conduct
from labrunner.analysis.sums.expense import Expense
from labrunner.analysis.sums.lineage import Lineage, sum_up
from labrunner.analysis.sums.tally import Tally
from labrunner.experiment.resolved import Experiment
from labrunner.records.encoding.canonical import stamp
from labrunner.records.rows import Benchmark
from labrunner.records.run import RunRecord
from labrunner.records.summary import SummaryRecord
from labrunner.runner.reports.likeness import PairBy, identify_tasks
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.reports.summaries import basis_of, seal_summary
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.opening.opening import refuse_damaged
from labrunner.store.reading.earlier_file import read_earlier
from labrunner.store.reading.run_state import read_state
from labrunner.store.reading.survey import survey
from labrunner.store.rows.lock import is_owned
from labrunner.store.rows.single_records import read_run
from labrunner.trial.assignment import BENCHMARK_ADAPTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a run's finished trials add up to, buffered ones included."""

    run_id: str
    experiment: Experiment
    tally: Tally
    expense: Expense
    conduct: Conduct
    basis: dict[str, object]
    """What was read; see `labrunner.runner.reports.summaries`."""
    lineage: Lineage | None = None
    """What the runs before it did."""

    @property
    def planned(self) -> dict[str, int]:
        """Each variant's number of slots, in order."""
        return planned_slots(self.experiment)

    def summarise(self, required: Sequence[tuple[str, str]] = ()) -> SummaryRecord:
        """Make the summary, complete; pairs of variants that are `required` are compared in it too."""
        made = summarise(
            self.tally,
            run_id=self.run_id,
            benchmark=benchmark_of(self.experiment),
            planned=self.planned,
            created_at=stamp(datetime.now(UTC)),
            expense=self.expense,
            budget=self.experiment.policy.budget,
            lineage=self.lineage,
            population=self.experiment.population,
            retry_margin=self.experiment.retry_margin,
            conduct=self.conduct,
            replay=self.replay,
            required=required,
        )
        return seal_summary(made, self.basis)

    @property
    def replay(self) -> str | None:
        """The run that it replays; not itself, where it reuses what its attempts heard before a crash."""
        replay = self.experiment.policy.replay
        return None if replay is None or PurePath(replay).name == self.run_id else replay

    def count_compared(self, required: Sequence[tuple[str, str]]) -> int:
        """How many comparisons there are with those that are required."""
        arms = self.arms()
        return len(join_family([(arms[0], other) for other in arms[1:]], arms, required))

    def arms(self, *, prefix: str = "", pair_by: PairBy = "id") -> tuple[Arm, ...]:
        """The run's variants, as sides of comparisons: within the run, or with other runs' by content."""
        digests = identify_tasks(self.experiment, pair_by)
        population = self.experiment.population
        return make_arms(self.tally, self.planned, prefix=prefix, digests=digests, population=population)


def read_results(paths: RunPaths, record: RunRecord | None = None) -> Results:
    """Read a run, live or dead. Nothing is written."""
    record = record or read_run(paths)
    return gather(read_experiment(paths, record), record.run_id, paths)


def gather(experiment: Experiment, run_id: str, paths: RunPaths) -> Results:
    """Go through everything that is finished."""
    idle = [variant.id for variant in experiment.variants if variant.agent.runs == "nothing"]
    expense, conduct, finished = Expense(), Conduct(idle), 0
    earlier = read_earlier(paths, read_run(paths))
    with survey(paths) as seen:
        # The basis is noted first: a mark that comes in between makes it differ, and is not missed.
        basis = basis_of(seen)
        invalidated = {mark.trial_id: mark.reason for mark in read_invalidations(paths)}
        tally = Tally.of(experiment, invalidated)
        for trial, timing in seen.finished():
            finished += 1
            before = earlier.get(trial.schedule_idx, ())
            if tally.add(trial, earlier=sum(attempt.is_reroll for attempt in before)):
                expense.add(trial, timing, before)
                conduct.add(trial, timing)
    basis["waiting"] = finished - seen.committed
    return Results(
        run_id=run_id,
        experiment=experiment,
        tally=tally,
        expense=expense,
        conduct=conduct,
        basis=basis,
        lineage=sum_up(earlier),
    )


def summarise_run(experiment: Experiment, run_id: str, paths: RunPaths) -> SummaryRecord:
    """Summarise a run from what lies on disk, in schedule order, buffered results included."""
    return gather(experiment, run_id, paths).summarise()


def read_checked_results(paths: RunPaths) -> Results:
    """Read a run whose results something is to be decided by."""
    check_rows(paths)
    return read_results(paths)


def check_rows(paths: RunPaths) -> None:
    """Hold every row of a run to its digest. A live run is taken as it is: its files grow meanwhile."""
    if not is_owned(paths):
        refuse_damaged(paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What results meet of what is required."""

    summary: SummaryRecord
    """With every comparison that is required among those shown, all as one family."""
    unmet: tuple[str, ...]
    notes: tuple[str, ...]
    """What to know beside the answer, whatever it is."""


def judge_run(paths: RunPaths, requirements: Requirements, summary: SummaryRecord | None = None) -> Judged:
    """Hold a run to what is required, with its summary where that was made already."""
    judged = judge(read_checked_results(paths), requirements, summary)
    return replace(judged, notes=tell_notes([paths], requirements, judged.notes))


def tell_notes(
    runs: Sequence[RunPaths], requirements: Requirements, notes: tuple[str, ...]
) -> tuple[str, ...]:
    """Notes beside what is required, with one more where a run goes on."""
    is_interim = requirements and any(read_state(paths) == "started" for paths in runs)
    return (*notes, INTERIM) if is_interim else notes


def judge(results: Results, requirements: Requirements, summary: SummaryRecord | None = None) -> Judged:
    """The same for results that were read already."""
    refuse_unknown(requirements, tuple(results.planned))
    made = summary or results.summarise()
    report = read_report(made)
    if len(report.comparisons) < results.count_compared(requirements.pairs):
        made = results.summarise(requirements.pairs)
        report = read_report(made)
    return Judged(
        summary=made,
        unmet=find_unmet(requirements, report.figures, report.retry_shift, report.comparisons),
        notes=find_notes(requirements, report.figures, report.retry_shift),
    )


def planned_slots(experiment: Experiment) -> dict[str, int]:
    """Each variant's number of slots, in order."""
    each = len(experiment.tasks) * experiment.replications
    return {variant.id: each for variant in experiment.variants}


def benchmark_of(experiment: Experiment) -> Benchmark:
    """What a run's records call its benchmark."""
    return Benchmark(adapter_id=BENCHMARK_ADAPTER, name=experiment.name, split="all")
