"""Verdicts of other people's harnesses beside ours, on the same tasks; `scripts/peers` installs those.

Whoever differs from what the cases say fails here: they, ours, or the reason that the pages give.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from labrunner.interop.importers.harbor_task import read_harbor_task
from tests.kit.cli.calling import lab
from tests.kit.docker.testimages import Images
from tests.kit.interop import harbor_cases, swe_bench_cases
from tests.kit.interop.peers import name_row, run_harbor, run_swe_bench
from tests.kit.interop.verdicts import ERROR, HALF, NOP, ORACLE, REFUSED, Said

pytestmark = [pytest.mark.peers, pytest.mark.timeout(3600)]
AGENTS = {ORACLE: "oracle", HALF: "oracle", NOP: "nop"}
OURS = {ORACLE: "oracle", HALF: "oracle", NOP: "noop"}


def say(cases: Mapping[str, Said], who: str) -> tuple[dict[str, str], dict[str, str]]:
    """What the cases say of who worked: theirs, ours."""
    asked = {name: case for name, case in cases.items() if who in case.theirs}
    theirs = {name: case.theirs[who] for name, case in asked.items()}
    return theirs, {name: case.of_us()[who] for name, case in asked.items()}


def run_ours(target: str, who: str, cwd: Path, *more: str) -> dict[str, str]:
    """Verdicts of `lab` by task; a task without one ended with an error."""
    cwd.mkdir()
    policy = ("--set", "fail_on_error=false", "--set", "min_free_disk_gb=0", "--max-concurrency", "4", *more)
    answer = lab("run", target, "--agent", OURS[who], *policy, cwd=cwd, timeout=3000)
    [run] = (cwd / ".lab" / "runs").glob("[!.]*")
    trials = [json.loads(line) for line in (run / "facts" / "trials.jsonl").read_text().splitlines()]
    scores = [json.loads(line) for line in (run / "benchmark" / "scores.jsonl").read_text().splitlines()]
    assert trials, answer.out + answer.err
    ends = {row["ids"]["task_id"]: ERROR for row in trials}
    is_alone = not target.startswith("harbor:")
    return ends | {row["ids"]["task_id"]: name_row(row, is_alone=is_alone) for row in scores}


@pytest.mark.parametrize("who", [ORACLE, HALF, NOP])
def test_a_harbor_task_has_the_verdict_that_harbor_gives_or_a_reason(
    who: str, tmp_path: Path, images: Images
) -> None:
    image = asyncio.run(images(swe_bench_cases.WITH_GIT))
    theirs, ours = say(harbor_cases.CASES, who)
    every = harbor_cases.write_cases(tmp_path / "every", image, who)
    assert run_harbor(every, AGENTS[who], tmp_path / "jobs") == theirs
    known = harbor_cases.write_cases(tmp_path / "known", image, who, refused=False)
    refused = {name: REFUSED for name in ours if read_harbor_task(every / name).refused}
    assert run_ours(f"harbor:{known}", who, tmp_path / "lab") | refused == ours


@pytest.mark.parametrize("who", [ORACLE, NOP])
def test_an_instance_of_swe_bench_has_the_verdict_that_its_harness_gives_or_a_reason(
    who: str, tmp_path: Path, images: Images
) -> None:
    image = asyncio.run(swe_bench_cases.build_repository(asyncio.run(images(swe_bench_cases.WITH_GIT))))
    rows = swe_bench_cases.make_rows(image, swe_bench_cases.find_start(tmp_path / "start"))
    dataset = swe_bench_cases.write_rows(tmp_path / "dev.jsonl", rows)
    theirs, ours = say(swe_bench_cases.CASES, who)
    predictions = "gold" if who == ORACLE else str(write_nothing(tmp_path / "nothing.jsonl"))
    limit_s = swe_bench_cases.LIMIT_S
    assert run_swe_bench(dataset, predictions, limit_s, tmp_path / "theirs") == theirs
    limit = ("--set", f"grader.timeout_s={limit_s}")
    assert run_ours(f"swe-bench:{dataset}", who, tmp_path / "lab", *limit) == ours


def write_nothing(path: Path) -> Path:
    """Predictions of whoever did nothing."""
    nothing = {"model_patch": "", "model_name_or_path": "nobody"}
    return swe_bench_cases.write_rows(
        path, [{"instance_id": name, **nothing} for name in swe_bench_cases.CASES]
    )
