"""Other people's tasks in real containers: judged as they are written, the same at any concurrency."""

import asyncio
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kit.cli.calling import LAB, Answer, lab
from tests.kit.docker.testimages import GLIBC, Images
from tests.kit.interop.harbor_tasks import TEST, TOML, write_task
from tests.kit.interop.swe_bench_cases import (
    WITH_GIT,
    build_repository,
    find_start,
    make_rows,
    write_rows,
)
from tests.kit.interop.terminal_bench_tasks import write_classic

SOLVES = ("--set", 'agent.command=[sh, -c, "echo 42 >answer.txt"]')
DOES_NOTHING = ("--set", 'agent.command=[sh, -c, ":"]')
QUIET = ("--set", "min_free_disk_gb=0", "--json")
REWARD = "/logs/verifier/reward"
JUDGED = """\
#!/bin/sh
ok=0
[ "$(cat answer.txt)" = 42 ] && ok=1
"""


def judged_by(end: str) -> str:
    return f"{JUDGED}{end}\n"


# What tests write, and what comes of it with the right answer, and with none: a score, or None for an error.
KINDS: Mapping[str, tuple[str, float | None, float | None]] = {
    "text": (TEST, 1.0, 0.0),
    "text_with_room": (judged_by(f'printf " %s.0 \\n" $ok >{REWARD}.txt'), 1.0, 0.0),
    "fraction": (judged_by(f"printf .5 >{REWARD}.txt"), 0.5, 0.5),
    "negative": (judged_by(f"printf -- -.5e1 >{REWARD}.txt"), -5.0, -5.0),
    "object": (judged_by(f'echo "{{\\"reward\\": $ok}}" >{REWARD}.json'), 1.0, 0.0),
    "both": (judged_by(f'echo "{{\\"reward\\": $ok}}" >{REWARD}.json; echo 7 >{REWARD}.txt'), 1.0, 0.0),
    "truth": (judged_by(f'echo "{{\\"reward\\": true}}" >{REWARD}.json'), 1.0, 1.0),
    "several": (judged_by(f'echo "{{\\"speed\\": 3, \\"reward\\": $ok}}" >{REWARD}.json'), 1.0, 0.0),
    "one_of_its_own": (judged_by(f'printf "{{\\n \\"speed\\" : $ok }}\\n\\n" >{REWARD}.json'), 1.0, 0.0),
    "exits": (judged_by(f"echo $ok >{REWARD}.txt; exit 3"), 1.0, 0.0),
    "several_without_reward": (judged_by(f'echo "{{\\"a\\": 1, \\"b\\": $ok}}" >{REWARD}.json'), None, None),
    "nothing": (judged_by("exit 0"), None, None),
    "empty": (judged_by(f": >{REWARD}.txt"), None, None),
    "words": (judged_by(f"echo good >{REWARD}.txt"), None, None),
    "infinite": (judged_by(f"echo inf >{REWARD}.txt"), None, None),
    "list": (judged_by(f"echo '[1]' >{REWARD}.json"), None, None),
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
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("agent", "column"), [(SOLVES, 1), (DOES_NOTHING, 2)], ids=["solved", "untouched"])
def test_every_way_to_write_a_reward_is_read_as_harbor_reads_it(
    tmp_path: Path, ash: str, agent: tuple[str, ...], column: int
) -> None:
    check_rewards(tmp_path, ash, tuple(KINDS), agent, column)


def carry_out(target: str, cwd: Path, *more: str) -> tuple[str, dict[str, float]]:
    """Run something whose runs must succeed: its digest, and scores by task."""
    cwd.mkdir(exist_ok=True)
    answer = lab("run", target, *more, "--set", "min_free_disk_gb=0", cwd=cwd, timeout=300)
    assert answer.code == 0, answer.out + answer.err
    return read_end(answer, cwd)


def read_end(answer: Answer, cwd: Path) -> tuple[str, dict[str, float]]:
    found = re.search(r"digest (sha256:[0-9a-f]{64})", answer.out)
    assert found is not None, answer.out + answer.err
    [folder] = (cwd / ".lab" / "runs").glob("[!.]*")
    rows = (folder / "benchmark" / "scores.jsonl").read_text().splitlines()
    scores = {row["ids"]["task_id"]: row["primary_metric_value"] for row in map(json.loads, rows)}
    return found[1], scores


@pytest.fixture(scope="module")
def bash_image(images: Images) -> str:
    return asyncio.run(images(GLIBC))


def write_kind(kind: str, folder: Path, image: str) -> Path:
    """Three tasks of a kind."""
    for name in ("a", "b", "c"):
        if kind == "harbor":
            write_task(folder / name, TOML, dockerfile=f"FROM {image}\nWORKDIR /app\n")
        else:
            write_classic(folder / name, image)
    return folder


def test_the_oracle_solves_a_harbor_task(tmp_path: Path, ash: str) -> None:
    write_task(tmp_path / "one", TOML, dockerfile=f"FROM {ash}\nWORKDIR /app\n")
    assert carry_out("harbor:../one", tmp_path / "solved", "--agent", "oracle")[1] == {"one": 1.0}


def test_tests_and_health_checks_run_as_the_user_that_the_image_itself_says(tmp_path: Path, ash: str) -> None:
    """By a variable of the Dockerfile, which nobody but the image can tell, as it is with a base image."""
    who = f"#!/bin/sh\nid -u >{REWARD}.txt\n"
    check = "[environment.healthcheck]\ncommand = '[ $(id -u) = 1234 ]'\nretries = 1\n"
    write_task(
        tmp_path / "one",
        f"{TOML}\n{check}",
        test=who,
        dockerfile=f"FROM {ash}\nARG WHO=app\nUSER $WHO\nWORKDIR /app\n",
    )
    _, scores = run("harbor:one", tmp_path, *DOES_NOTHING)
    assert scores["one"]["primary_metric_value"] == 1234


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["harbor", "terminal-bench"])
def test_the_oracle_passes_and_doing_nothing_fails(kind: str, tmp_path: Path, bash_image: str) -> None:
    folder = write_kind(kind, tmp_path / "set", bash_image)
    _, solved = carry_out(f"{kind}:{folder}", tmp_path / "solved", "--agent", "oracle")
    assert solved == {"a": 1.0, "b": 1.0, "c": 1.0}
    _, untouched = carry_out(f"{kind}:{folder}", tmp_path / "untouched", "--agent", "noop")
    assert untouched == {"a": 0.0, "b": 0.0, "c": 0.0}


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["harbor", "terminal-bench", "swe-bench"])
def test_a_run_has_one_digest_imported_or_not_one_by_one_or_at_once_killed_or_not(
    kind: str, tmp_path: Path, images: Images, bash_image: str
) -> None:
    if kind == "swe-bench":
        folder = write_instances(tmp_path, images, "a", "b", "c")
    else:
        folder = write_kind(kind, tmp_path / "set", bash_image)
    oracle = ("--agent", "oracle")
    one_by_one, _ = carry_out(f"{kind}:{folder}", tmp_path / "one", *oracle, "--max-concurrency", "1")
    written = lab("import", kind, folder, "-o", tmp_path / "mine", cwd=tmp_path)
    assert written.code == 0, written.err
    at_once, _ = carry_out(str(tmp_path / "mine"), tmp_path / "eight", *oracle, "--max-concurrency", "8")
    assert at_once == one_by_one
    killed = tmp_path / "killed"
    killed.mkdir()
    words = [LAB, "run", f"{kind}:{folder}", *oracle, "--set", "min_free_disk_gb=0", "--max-concurrency", "1"]
    process = subprocess.Popen(words, cwd=killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    commits = wait_for_a_commit(killed, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 0 < len(commits.read_text().splitlines()) < 5
    again = lab("continue", "last", cwd=killed, timeout=300)
    assert again.code == 0, again.out + again.err
    assert read_end(again, killed)[0] == one_by_one


def wait_for_a_commit(folder: Path, process: "subprocess.Popen[bytes]") -> Path:
    """Wait until a run has committed something, and is not over."""
    while process.poll() is None:
        for commits in (folder / ".lab" / "runs").glob("*/commits.jsonl"):
            if commits.read_text().count("\n") > 1:
                return commits
        time.sleep(0.05)
    raise AssertionError("the run was over before it could be killed")


def test_a_test_of_terminal_bench_is_a_metric(tmp_path: Path, bash_image: str) -> None:
    write_classic(tmp_path / "one", bash_image)
    _, scores = run("terminal-bench:one", tmp_path, "--agent", "noop")
    assert scores["one"]["metrics"] == {
        "test: /tests/test_outputs.py::test_there": 1,
        'test: /tests/test_outputs.py::test_answer["a"]': 0,
        "test: [1] test_outputs.py:3: later": 1,
        "tests": 3,
        "tests_passed": 2,
        "test_exit_status": 1,
    }


LOOKS = (
    "git log --all --oneline | wc -l >new.txt; "
    "git cat-file --batch-all-objects --batch-check | wc -l >>new.txt"
)


def write_instances(folder: Path, images: Images, *names: str) -> Path:
    """A data set of instances."""
    image = asyncio.run(build_repository(asyncio.run(images(WITH_GIT))))
    row = make_rows(image, find_start(folder / "repository"))[0]
    return write_rows(folder / "dev.jsonl", [{**row, "instance_id": name} for name in names])


# Work in a commit that looks like one of the image's makers, a folder that ignores itself, a ruined index.
HIDES = (
    "echo 42 >answer.txt; git add -A; "
    "git -c user.name=s -c user.email=setup@swebench.config commit -qm SWE-bench; "
    "mkdir own; echo '*' >own/.gitignore; echo x >own/new; echo x >x.log; : >.git/index; "
    "ln -s /etc .git/hooks/evil; git config core.worktree /usr"
)
LOOKS_AROUND = "[ ! -e own ] && [ ! -e x.log ] && [ ! -e .git/hooks/evil ] && ! git show fix:answer.txt"


def test_nothing_that_an_agent_does_to_its_repository_moves_or_hides_its_patch(
    tmp_path: Path, images: Images
) -> None:
    path = write_instances(tmp_path, images, "one")
    target = f"swe-bench:{path}"
    instance = json.loads(path.read_text())
    start, *lines = instance["eval_script"].partition(": '>>>>> End")
    instance["eval_script"] = "".join((start, f"{LOOKS_AROUND} && echo 'PASSED t.py::test_clean'\n", *lines))
    instance["FAIL_TO_PASS"].append("t.py::test_clean")
    path.write_text(json.dumps(instance) + "\n")
    hides = ("--set", f"agent.command=[sh, -c, {json.dumps(HIDES)}]")
    _, scores = run(target, tmp_path, *hides, "--set", "grader.network=none", "--keep-workspace", "always")
    metrics = scores["one"]["metrics"]
    assert metrics.pop("patch_applied") is True
    assert (scores["one"]["primary_metric_value"], metrics["FAIL_TO_PASS"]) == (1.0, 2)
    [folder] = (tmp_path / ".lab" / "runs").glob("[!.]*")
    [row] = map(json.loads, (folder / "benchmark" / "predictions.jsonl").read_text().splitlines())
    shown = lab("shell", "last", "0", "--", "sh", "-c", "cat $AGENTLAB_PATCH_PATH", cwd=tmp_path)
    assert shown.out == row["prediction"]["value"], shown.err
    assert [line for line in row["prediction"]["value"].splitlines() if line[:1] in "+-"] == [
        "--- a/answer.txt",
        "+++ b/answer.txt",
        "-wrong",
        "+42",
    ]


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_an_instance_of_swe_bench_is_judged_by_its_patch_in_a_fresh_container(
    tmp_path: Path, images: Images
) -> None:
    write_instances(tmp_path, images, "one")
    target = f"swe-bench:{tmp_path}/dev.jsonl"
    quiet = ("--set", "grader.network=none")
    assert carry_out(target, tmp_path / "solved", "--agent", "oracle", *quiet)[1] == {"one": 1.0}
    assert carry_out(target, tmp_path / "untouched", "--agent", "noop", *quiet)[1] == {"one": 0.0}
    looks = ("--set", f"agent.command=[sh, -c, {json.dumps(LOOKS)}]")
    (tmp_path / "looked").mkdir()
    _, scores = run(target, tmp_path / "looked", *looks, *quiet)
    metrics = scores["one"]["metrics"]
    assert (metrics["patch_applied"], metrics["log_read"]) == (True, True)
    assert (metrics["FAIL_TO_PASS"], metrics["PASS_TO_PASS"]) == (0, 1)
    [folder] = (tmp_path / "looked" / ".lab" / "runs").glob("[!.]*")
    [row] = map(json.loads, (folder / "benchmark" / "predictions.jsonl").read_text().splitlines())
    # One commit with its tree and four files; nothing of the fix, nor of the agent's own.
    assert "+1\n+6\n" in row["prediction"]["value"]
