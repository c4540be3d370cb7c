"""Scripts that go into containers of other people's tasks, run here by hand."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labrunner.interop.importers.shims import read_shim
from labrunner.sandbox.bubblewrap.program import find_bwrap, works_here

REPOSITORY = (
    "git init -q && git config user.email me@here && git config user.name me && echo wrong >answer.txt && "
    "git add -A && git commit -qm start && git branch -M main && git checkout -qb fix && "
    "echo 42 >answer.txt && git commit -qam 'the fix' && git checkout -q main"
)


def call(words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, with a home beside it."""
    env = {**os.environ, "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["sh", "-c", words], cwd=folder, env=env, check=False, capture_output=True, text=True
    )


def write_repository(folder: Path) -> Path:
    folder.mkdir()
    assert call(REPOSITORY, folder).returncode == 0
    return folder


def test_a_history_is_scrubbed_and_said_to_be(tmp_path: Path) -> None:
    repository = write_repository(tmp_path / "testbed")
    done = call(read_shim("swe_bench_setup"), repository)
    assert (done.returncode, done.stdout) == (
        0,
        "scrubbed: 1 branches and tags are gone, and what only they reached\n",
    )
    assert call("git for-each-ref --format='%(refname)'", repository).stdout == "refs/heads/main\n"


def test_a_history_that_cant_be_scrubbed_is_not_said_to_be(tmp_path: Path) -> None:
    repository = write_repository(tmp_path / "testbed")
    hook = repository / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    once = f"[ -e {tmp_path}/refused ] || {{ : >{tmp_path}/refused; exit 1; }}"
    hook.write_text(f"#!/bin/sh\n[ $1 = prepared ] && grep -q refs/heads/fix || exit 0\n{once}\n")
    hook.chmod(0o755)
    done = call(read_shim("swe_bench_setup"), repository)
    assert (done.returncode, done.stdout) == (1, "")
    assert (tmp_path / "refused").exists()


PLACES = ("/usr", "/bin", "/lib", "/lib64")


def judge(folder: Path, user: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run the grader of a Harbor task in an image of two users, where nobody but root can be had."""
    for name in ("etc", "tests", "out"):
        (folder / name).mkdir()
    (folder / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n")
    (folder / "etc" / "group").write_text("root:x:0:\napp:x:1000:\n")
    (folder / "tests" / "test.sh").write_text("#!/bin/sh\nid -u >/logs/verifier/reward.txt\n")
    score = folder / "out" / "score.json"
    mounts = [word for place in PLACES if Path(place).exists() for word in ("--ro-bind", place, place)]
    mounts += ["--bind", str(folder / "out"), "/out", "--ro-bind", str(folder / "etc"), "/etc"]
    mounts += ["--ro-bind", str(folder / "tests"), "/given", "--dev", "/dev"]
    env = {"LAB_TEST_USER": user, "AGENTLAB_GRADER_DIR": "/given"}
    env |= {"AGENTLAB_BENCHMARK_SCORE_PATH": "/out/score.json", "PATH": "/usr/bin:/bin:/usr/sbin"}
    bwrap = find_bwrap()
    assert bwrap is not None
    words = [
        bwrap.path,
        "--unshare-user",
        "--uid",
        "0",
        "--gid",
        "0",
        *mounts,
        "sh",
        "-c",
        read_shim("harbor_grade"),
    ]
    return subprocess.run(words, env=env, check=False, capture_output=True, text=True), score


needs_bwrap = pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")


@needs_bwrap
@pytest.mark.bwrap
@pytest.mark.parametrize("user", ["", "root", "0", "root:root", "0:0"])
def test_tests_of_harbor_run_as_root_where_root_is_meant(user: str, tmp_path: Path) -> None:
    done, score = judge(tmp_path, user)
    assert done.returncode == 0, done.stderr
    assert json.loads(score.read_text()) == {"score": 0, "metrics": {"test_exit_status": 0}}


@needs_bwrap
@pytest.mark.bwrap
@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ("ghost", "the image knows no user 'ghost'"),
        ("$UID", "the image knows no user '$UID'"),
        ("ghost:app", "the image knows no user 'ghost'"),
        ("app:ghosts", "the image knows no group 'ghosts'"),
        ("app:app", "test.sh exited with 1 and wrote neither"),
        ("1000:1000", "test.sh exited with 1 and wrote neither"),
        ("app:0", "without setpriv"),
        ("7:8", "without setpriv"),
    ],
)
def test_tests_of_harbor_never_run_as_root_where_another_is_meant(
    user: str, problem: str, tmp_path: Path
) -> None:
    done, score = judge(tmp_path, user)
    assert done.returncode == 1
    assert problem in done.stderr + done.stdout
    assert not score.exists()


EVAL = """\
: '>>>>> Start Test Output'
[ "$(cat answer.txt)" = 42 ] && echo 'PASSED new' || echo 'FAILED new'
[ -e hidden.txt ] && echo 'PASSED old' || echo 'FAILED old'
! git show fix:answer.txt || echo 'PASSED cheat'
: '>>>>> End Test Output'
"""
PATCH = "--- a/answer.txt\n+++ b/answer.txt\n@@ -1 +1 @@\n-wrong\n+42\n"
ADDS = (
    "diff --git a/hidden.txt b/hidden.txt\nnew file mode 100644\n"
    "--- /dev/null\n+++ b/hidden.txt\n@@ -0,0 +1 @@\n+x\n"
)


def grade(
    folder: Path, patch: str | None, *, image: str = ":", where: str = "pristine"
) -> subprocess.CompletedProcess[str]:
    """Grade a patch in an image's repository, which some commands have made ready."""
    repository = write_repository(folder / "testbed")
    assert call(image, repository).returncode == 0
    asked = {"eval_script": EVAL, "reader": "pytest", "FAIL_TO_PASS": ["new"], "PASS_TO_PASS": []}
    (folder / "target.json").write_text(json.dumps(asked))
    if patch is not None:
        (folder / "patch.diff").write_text(patch)
    script = read_shim("swe_bench_grade.py")
    script = script.replace('"/testbed", "/eval.sh"', f'"{repository}", "{folder}/eval.sh"')
    script = script.replace('os.environ["HOME"] = "/root"', f'os.environ["HOME"] = "{folder}"')
    env = {**os.environ, "HOME": str(folder), "AGENTLAB_TARGET_PATH": str(folder / "target.json")}
    env |= {"AGENTLAB_GRADER_WHERE": where, "AGENTLAB_PATCH_PATH": str(folder / "patch.diff")}
    for name in ("SCORE", "PREDICTION"):
        env[f"AGENTLAB_BENCHMARK_{name}_PATH"] = str(folder / name)
    words = [sys.executable, "-I", "-c", script, read_shim("swe_bench_setup")]
    return subprocess.run(words, env=env, cwd=folder, check=False, capture_output=True, text=True)


def read_grade(folder: Path) -> tuple[dict[str, Any], str]:
    """The score, and the prediction."""
    prediction = json.loads((folder / "PREDICTION").read_text())["value"]
    return json.loads((folder / "SCORE").read_text()), prediction


def test_a_patch_is_judged_in_the_images_own_repository_without_its_history(tmp_path: Path) -> None:
    assert grade(tmp_path, PATCH).returncode == 0
    told, prediction = read_grade(tmp_path)
    assert (told["score"], told["metrics"]["patch_applied"]) == (1, True)
    assert told["metrics"]["tests"] == 2  # the fix could not be read out of it
    assert prediction == PATCH


@pytest.mark.parametrize(
    ("patch", "is_applied"),
    [(None, False), ("no patch", False), (PATCH.replace("wrong", "other"), False), ("", True)],
)
def test_what_is_no_patch_or_changes_nothing_is_a_zero_and_no_error(
    patch: str | None, is_applied: bool, tmp_path: Path
) -> None:
    assert grade(tmp_path, patch).returncode == 0
    told, _ = read_grade(tmp_path)
    assert (told["score"], told["metrics"]["patch_applied"]) == (0, is_applied)


def test_what_an_image_left_uncommitted_is_in_the_way_of_no_patch(tmp_path: Path) -> None:
    done = grade(tmp_path, f"{PATCH}{ADDS}", image="echo x >hidden.txt; echo dirty >answer.txt")
    assert done.returncode == 0, done.stderr
    assert read_grade(tmp_path)[0]["metrics"]["tests"] == 2
    assert read_grade(tmp_path)[0]["score"] == 1


@pytest.mark.parametrize("image", ["rm -rf .git", "rm .git/HEAD"])
def test_an_image_whose_repository_is_none_is_an_error_and_no_zero(image: str, tmp_path: Path) -> None:
    done = grade(tmp_path, PATCH, image=image)
    assert done.returncode == 1
    assert "the image's repository can't be made ready" in done.stderr
    assert not (tmp_path / "SCORE").exists()


def test_work_is_judged_as_it_was_left_where_the_container_holds_it(tmp_path: Path) -> None:
    assert (
        grade(tmp_path, "no patch", image="echo 42 >answer.txt; rm -rf .git", where="fresh").returncode == 0
    )
    told, prediction = read_grade(tmp_path)
    assert (told["score"], prediction) == (1, "no patch")
    assert "patch_applied" not in told["metrics"]


def test_tests_of_terminal_bench_without_bash_are_no_zero(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    env = {"PATH": str(tmp_path), "AGENTLAB_BENCHMARK_SCORE_PATH": str(score)}  # where no program is
    done = subprocess.run(
        ["/bin/sh", "-c", read_shim("terminal_bench_grade")], env=env, capture_output=True, text=True
    )
    assert (done.returncode, score.exists()) == (1, False)
    assert "there is no bash here" in done.stderr
