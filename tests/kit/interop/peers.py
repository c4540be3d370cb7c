"""Other people's harnesses, run as their users run them; `scripts/peers` installs them, in LAB_TEST_PEERS."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit.interop.verdicts import ERROR, name_rewards

GIVEN: Final = os.environ.get("LAB_TEST_PEERS", "")
AT_ONCE: Final = 8


def find_peer(program: str) -> Path:
    """A program of a harness."""
    if not GIVEN:
        pytest.fail("this compares with other harnesses, which `scripts/peers` installs: run that")
    path = Path(GIVEN) / program
    assert path.exists(), f"{path} is not there: `scripts/peers` installs it"
    return path


def run_harbor(tasks: Path, agent: str, jobs: Path) -> dict[str, str]:
    """Run a folder of tasks by Harbor: verdicts by task."""
    words = ["run", "--path", tasks, "--agent", agent, "--jobs-dir", jobs, "--job-name", "it", "--yes"]
    call(find_peer("harbor/bin/harbor"), *words, "--n-concurrent", AT_ONCE, cwd=jobs.parent)
    results = (json.loads(path.read_text()) for path in (jobs / "it").glob("*/result.json"))
    return {result["task_name"]: name_result(result) for result in results}


def name_result(result: Mapping[str, Any]) -> str:
    rewards: dict[str, float] = (result["verifier_result"] or {}).get("rewards") or {}
    main = "reward" if "reward" in rewards else next(iter(rewards)) if len(rewards) == 1 else None
    others = {name: value for name, value in rewards.items() if name != main}
    return name_rewards(rewards[main] if main is not None else None, others)


def run_swe_bench(dataset: Path, predictions: str, limit_s: int, folder: Path) -> dict[str, str]:
    """Run predictions on a file of instances by SWE-bench's harness: verdicts by instance."""
    folder.mkdir()
    words = ["-m", "swebench.harness.run_evaluation", "--dataset_name", dataset, "--run_id", "it"]
    more = ["--predictions_path", predictions, "--timeout", limit_s, "--max_workers", AT_ONCE]
    call(find_peer("swe/bin/python"), *words, *more, cwd=folder)
    [path] = folder.glob("*.it.json")
    report = json.loads(path.read_text())
    verdicts = {"resolved_ids": "1", "unresolved_ids": "0", "empty_patch_ids": "0", "error_ids": ERROR}
    return {name: verdict for ids, verdict in verdicts.items() for name in report[ids]}


def call(program: Path, *words: object, cwd: Path) -> None:
    """Run a harness to its end. Its verdicts count, not how it ends."""
    home = cwd / "home"
    home.mkdir(exist_ok=True)
    env = {**os.environ, "HOME": str(home), "HARBOR_TELEMETRY": "0"}
    argv = [str(program), *map(str, words)]
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    (cwd / "said.txt").write_text(f"{argv}\nexit status {done.returncode}\n{done.stdout}\n{done.stderr}")


def name_row(row: Mapping[str, Any], *, is_alone: bool = False) -> str:
    """The verdict of a row of scores; `is_alone`: other metrics tell of it, and are no rewards."""
    if is_alone:
        return name_rewards(row["primary_metric_value"], {})
    main = row["primary_metric_name"]
    metrics = {name: value for name, value in row["metrics"].items() if name != "test_exit_status"}
    others = {} if len(metrics) <= 1 else {name: value for name, value in metrics.items() if name != main}
    return name_rewards(row["primary_metric_value"], others)
