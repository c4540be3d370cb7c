"""A model's provider that is away for a while: Python solvers wait, and the run ends as on a good day."""

import threading
import time
from pathlib import Path

from labrunner.experiment.options.overrides import Overrides
from labrunner.log import read_eval_log
from labrunner.policy.pace import RunPace
from labrunner.runner.start import RunOptions, run_experiment
from labrunner.solve.models.mock import trouble
from labrunner.solve.origin import PythonTasks
from tests.kit.solve.authoring import answering, make_task, samples

OUTAGE_S = 1.0
SAMPLES = 200


class Provider:
    """Echoes what it is told, but for a while after the first calls. Asked from several threads."""

    def __init__(self, good_calls: int) -> None:
        self._good_calls = good_calls
        self._calls = 0
        self._down_since = 0.0
        self._lock = threading.Lock()
        self.refused = 0

    def answer(self, text: str) -> str:
        with self._lock:
            self._calls += 1
            if self._calls == self._good_calls:
                self._down_since = time.monotonic()
            if self._down_since and time.monotonic() < self._down_since + OUTAGE_S:
                self.refused += 1
                raise trouble(503, "overloaded")
        return text


async def test_an_outage_of_the_models_provider_costs_its_time_and_nothing_else(tmp_path: Path) -> None:
    provider, tasks = Provider(good_calls=60), PythonTasks()
    task = make_task(samples(*(f"s{number}" for number in range(SAMPLES))))
    overrides = Overrides(max_retries=0, max_concurrency=8, retry_on_error=1, fail_on_error=0.05)
    experiment = tasks.resolve(task, overrides, answering(provider.answer))
    options = RunOptions(
        runs_dir=tmp_path,
        secrets={},
        executors=tasks.executor,
        reread=tasks.reread,
        pace=RunPace(first_probe_s=0.1, first_wait_s=0.01),
    )

    async def look_away(live: object) -> None:
        del live

    end = await run_experiment(experiment, options, look_away)
    log = read_eval_log(end.paths.root)

    assert provider.refused >= 5 + 2  # enough to open the breaker, then probes
    assert log.status == "success", log.error
    assert log.results.completed_samples == SAMPLES
    assert log.results.failed_samples == 0
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    assert all(sample.attempts <= 2 for sample in log.samples)
