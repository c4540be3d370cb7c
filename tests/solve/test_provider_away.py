"""A model's provider that is away for a while: Python solvers wait, and the run ends as on a good day."""

import threading
import time
from pathlib import Path

import pytest

from labrunner.solve.models.mock import trouble
from tests.kit.solve.authoring import answering, make_task, run, samples

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


def test_an_outage_of_the_models_provider_costs_its_time_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labrunner.policy.breaker.FIRST_PROBE_S", 0.1)
    monkeypatch.setattr("labrunner.policy.retry.FIRST_WAIT_S", 0.01)
    provider = Provider(good_calls=60)
    task = make_task(samples(*(f"s{number}" for number in range(SAMPLES))))

    log = run(
        task,
        tmp_path,
        answering(provider.answer),
        max_retries=0,
        max_concurrency=8,
        retry_on_error=1,
        fail_on_error=0.05,
    )

    assert provider.refused >= 5 + 2  # enough to open the breaker, then probes
    assert log.status == "success", log.error
    assert log.results.completed_samples == SAMPLES
    assert log.results.failed_samples == 0
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    assert all(sample.attempts <= 2 for sample in log.samples)
