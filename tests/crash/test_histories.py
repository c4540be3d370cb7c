"""Any history of beginning, failing, dying, going on, retrying and recovering, against a plain model."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from labrunner.records.encoding.ids import make_trial_id
from labrunner.store.checking.verification import verify
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import list_runs
from labrunner.store.reading.run_state import iter_finished, read_state
from tests.kit.crash.driver import Job, digest_slot
from tests.kit.crash.driving import Driver, Heard
from tests.kit.crash.scenario import Shape, write_scenario

pytestmark = pytest.mark.crash

SHAPE = Shape(tasks=3, variants=2, replications=1, concurrency=3, retry_on_error=0)
TRIALS = [make_trial_id(f"v{variant}", f"t{task}", 0) for task in range(3) for variant in range(2)]

failings = st.frozensets(st.sampled_from(TRIALS), max_size=3)
deaths = st.none() | st.integers(1, len(TRIALS))


@dataclass(slots=True, kw_only=True)
class ModelRun:
    """What a run must hold: for every finished trial whether it is good."""

    run_id: str
    sources: tuple["ModelRun", ...] = ()
    finished: dict[str, bool] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)
    is_over: bool = False

    def judged(self, runs_dir: Path) -> set[str]:
        """Trials of which only grading failed before, whose work a death kept from being thrown away."""
        kept: set[str] = set()
        for run in self.sources:
            paths = RunPaths(runs_dir / run.run_id)
            for rows in iter_finished(paths):
                workspace = paths.attempt(rows.trial_id, rows.trial.attempt) / "workspace"
                if not run.finished[rows.trial_id] and workspace.is_dir():
                    kept.add(rows.trial_id)
        return kept & self.owed()

    def owed(self) -> set[str]:
        """Trials that need a judgement: not finished here, and no good result anywhere before."""
        taken = {trial for run in self.sources for trial, good in run.finished.items() if good}
        return set(TRIALS) - self.finished.keys() - taken


class Histories(RuleBasedStateMachine):
    """Drives real processes through a history and keeps the model beside it."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        super().__init__()
        self._driver = driver
        self._runs_dir = folder / "runs"
        self._experiment = str(write_scenario(folder / "experiment", SHAPE))
        self._runs: list[ModelRun] = []
        self._reports: set[str] = set()

    @property
    def newest(self) -> ModelRun:
        return self._runs[-1]

    @initialize(failing=failings, death=deaths)
    def begin(self, failing: frozenset[str], death: int | None) -> None:
        self._runs.append(ModelRun(run_id="run-0"))
        self._carry_out("go_on", failing, death)

    @rule(failing=failings, death=deaths)
    def go_on(self, failing: frozenset[str], death: int | None) -> None:
        self._carry_out("go_on", failing, death)

    @rule(failing=failings, death=deaths)
    def retry(self, failing: frozenset[str], death: int | None) -> None:
        sources = tuple(reversed(self._runs))
        self._runs.append(ModelRun(run_id=f"run-{len(self._runs)}", sources=sources))
        self._carry_out("retry", failing, death)

    @rule()
    def recover(self) -> None:
        # No precondition: how far a killed process came is not the same each time, which Hypothesis refuses.
        if self.newest.is_over or self.newest.run_id in self._reports:
            return
        job = Job(experiment="", runs_dir=str(self._runs_dir), run_id=self.newest.run_id, action="recover")
        heard = self._driver.run(job)
        assert heard.code == 0, heard.told
        recovered, owed, _ = map(int, heard.told["recovered"][0].split())
        assert recovered == len(self.newest.finished)
        assert owed == len(TRIALS) - sum(self.newest.finished.values())
        self._reports.add(self.newest.run_id)

    @invariant()
    def everything_is_on_disk(self) -> None:
        for run in self._runs:
            paths = RunPaths(self._runs_dir / run.run_id)
            rows = {rows.schedule_idx: rows for rows in iter_finished(paths)}
            assert {idx: digest_slot(each) for idx, each in rows.items()} == run.digests
            assert {each.trial_id: each.trial.outcome == "graded" for each in rows.values()} == run.finished
            assert verify(paths).problems == ()
            assert read_state(paths) == ("success" if run.is_over else "crashed")
        assert len(list_runs(self._runs_dir)) == len(self._runs) + len(self._reports)

    def _carry_out(self, action: str, failing: frozenset[str], death: int | None) -> None:
        run = self.newest
        judged, was_over = run.judged(self._runs_dir), run.is_over
        owed = run.owed() - judged
        heard = self._driver.run(self._job(action, failing, death))
        assert heard.code in {0, -9}, heard.told
        ran = {trial for trial, _ in heard.agents}
        if was_over:
            assert (heard.code, ran) == (0, set())
        elif heard.code == 0:
            assert ran == owed
            run.is_over = True
        else:
            assert ran <= owed
        self._learn(run, heard, ran | judged, failing)

    def _job(self, action: str, failing: frozenset[str], death: int | None) -> Job:
        return Job(
            experiment=self._experiment,
            runs_dir=str(self._runs_dir),
            run_id=self.newest.run_id,
            action="retry" if action == "retry" else "go_on",
            retry_of=self._runs[-2].run_id if action == "retry" else "",
            failing=failing,
            die_after=death,
        )

    def _learn(self, run: ModelRun, heard: Heard, graded: set[str], failing: frozenset[str]) -> None:
        """What was acknowledged must be there; what was not may be, if it was under way."""
        taken = set(TRIALS) - run.finished.keys() - graded
        expected = {**dict.fromkeys(taken, True), **{trial: trial not in failing for trial in graded}}
        present = {rows.schedule_idx: rows for rows in iter_finished(RunPaths(self._runs_dir / run.run_id))}
        digests = {idx: digest_slot(rows) for idx, rows in present.items()}
        assert heard.finished.items() <= digests.items()
        assert run.digests.items() <= digests.items()
        run.digests = digests
        for rows in present.values():
            if rows.trial_id not in run.finished:
                run.finished[rows.trial_id] = expected[rows.trial_id]
        if run.is_over:
            assert run.finished.keys() == set(TRIALS)


def play(driver: Driver, factory: pytest.TempPathFactory, *, histories: int, steps: int) -> None:
    class Here(Histories):
        def __init__(self) -> None:
            super().__init__(driver, factory.mktemp("history"))

    checks = settings(
        max_examples=histories,
        stateful_step_count=steps,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],  # smaller ones of a failure take too long
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Here, settings=checks)


def test_whatever_happens_in_whatever_order_is_what_the_model_says(
    driver: Driver, tmp_path_factory: pytest.TempPathFactory
) -> None:
    play(driver, tmp_path_factory, histories=12, steps=6)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_hundreds_of_long_histories(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> None:
    play(driver, tmp_path_factory, histories=300, steps=25)
