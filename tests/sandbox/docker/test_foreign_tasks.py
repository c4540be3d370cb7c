"""Other people's tasks in real containers: judged as they are written, the same at any concurrency."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kit.cli.calling import Answer, lab
from tests.kit.interop.harbor_tasks import TEST, TOML, write_task

SOLVES = ("--set", 'agent.command=[sh, -c, "echo 42 >answer.txt"]')
DOES_NOTHING = ("--set", 'agent.command=[sh, -c, ":"]')
QUIET = ("--set", "min_free_disk_gb=0", "--json")
REWARD = "/logs/verifier/reward"
JUDGED = """\
#!/bin/sh
ok=0
[ "$(cat answer.txt)" = 42 ] && ok=1
"""


def tests_that(end: str) -> str:
    return f"{JUDGED}{end}\n"


# What tests write, and what comes of it with the right answer, and with none: a score, or None for an error.
KINDS: Mapping[str, tuple[str, float | None, float | None]] = {
    "text": (TEST, 1.0, 0.0),
    "text_with_room": (tests_that(f'printf " %s.0 \\n" $ok >{REWARD}.txt'), 1.0, 0.0),
    "fraction": (tests_that(f"printf .5 >{REWARD}.txt"), 0.5, 0.5),
    "negative": (tests_that(f"printf -- -.5e1 >{REWARD}.txt"), -5.0, -5.0),
    "object": (tests_that(f'echo "{{\\"reward\\": $ok}}" >{REWARD}.json'), 1.0, 0.0),
    "both": (tests_that(f'echo "{{\\"reward\\": $ok}}" >{REWARD}.json; echo 7 >{REWARD}.txt'), 1.0, 0.0),
    "truth": (tests_that(f'echo "{{\\"reward\\": true}}" >{REWARD}.json'), 1.0, 1.0),
    "several": (tests_that(f'echo "{{\\"speed\\": 3, \\"reward\\": $ok}}" >{REWARD}.json'), 1.0, 0.0),
    "one_of_its_own": (tests_that(f'printf "{{\\n \\"speed\\" : $ok }}\\n\\n" >{REWARD}.json'), 1.0, 0.0),
    "exits": (tests_that(f"echo $ok >{REWARD}.txt; exit 3"), 1.0, 0.0),
    "several_without_reward": (tests_that(f'echo "{{\\"a\\": 1, \\"b\\": $ok}}" >{REWARD}.json'), None, None),
    "nothing": (tests_that("exit 0"), None, None),
    "empty": (tests_that(f": >{REWARD}.txt"), None, None),
    "words": (tests_that(f"echo good >{REWARD}.txt"), None, None),
    "infinite": (tests_that(f"echo inf >{REWARD}.txt"), None, None),
    "list": (tests_that(f"echo '[1]' >{REWARD}.json"), None, None),
}


def run(target: str, cwd: Path, *more: str) -> tuple[Answer, dict[str, dict[str, Any]]]:
    """Run, and give scores by task; a task without one ended with an error."""
    answer = lab("run", target, *more, *QUIET, cwd=cwd, timeout=300)
    [folder] = [path for path in (cwd / ".lab" / "runs").iterdir() if path.is_dir()][-1:]
    rows = (folder / "benchmark" / "scores.jsonl").read_text().splitlines()
    return answer, {row["ids"]["task_id"]: row for row in map(json.loads, rows)}


QUICK = ("text", "several", "one_of_its_own", "exits", "nothing")


def write_set(folder: Path, image: str, kinds: Iterable[str] = KINDS) -> Path:
    for name in kinds:
        write_task(folder / name, TOML, test=KINDS[name][0], dockerfile=f"FROM {image}\nWORKDIR /app\n")
    return folder


def check_rewards(
    tmp_path: Path, image: str, kinds: Iterable[str], agent: tuple[str, ...], column: int
) -> None:
    write_set(tmp_path / "set", image, kinds)
    _, scores = run("harbor:set", tmp_path, *agent, "--set", "fail_on_error=false")
    found = {name: scores[name]["primary_metric_value"] if name in scores else None for name in kinds}
    assert found == {name: KINDS[name][column] for name in kinds}
    assert {row["primary_metric_name"] for row in scores.values()} == {"reward"}
    assert scores["exits"]["metrics"] == {"test_exit_status": 3}
    assert scores["several"]["metrics"] == {"speed": 3, "reward": 2 - column, "test_exit_status": 0}


def test_what_a_harbor_task_writes_as_its_reward_is_its_score(tmp_path: Path, ash: str) -> None:
    check_rewards(tmp_path, ash, QUICK, SOLVES, 1)


@pytest.mark.torture
@pytest.mark.parametrize(("agent", "column"), [(SOLVES, 1), (DOES_NOTHING, 2)], ids=["solved", "untouched"])
def test_every_way_to_write_a_reward_is_read_as_harbor_reads_it(
    tmp_path: Path, ash: str, agent: tuple[str, ...], column: int
) -> None:
    check_rewards(tmp_path, ash, tuple(KINDS), agent, column)
