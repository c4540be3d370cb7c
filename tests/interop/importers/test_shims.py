"""Scripts that go into containers of other people's tasks, run here by hand."""

import os
import subprocess
from pathlib import Path

from labrunner.interop.importers.shims import read_shim

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
