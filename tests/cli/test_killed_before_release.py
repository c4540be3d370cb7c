"""What a runner leaves that is killed between a commit and the removal of what is not kept."""

from pathlib import Path

import pytest

from tests.kit.cli.calling import lab, write_experiment


@pytest.mark.parametrize("point", ["commit.acknowledged:2", "commit.acknowledged:3"])
def test_what_is_not_kept_goes_with_the_next_owner_of_the_run(tmp_path: Path, point: str) -> None:
    write_experiment(tmp_path)
    words = ("run", "--run-id", "x", "--keep-workspace", "never", "--max-concurrency", "1")
    killed = lab(*words, cwd=tmp_path, env={"LAB_DIE_AT": point})
    left = list(tmp_path.glob(".lab/runs/x/trials/*/*/workspace"))

    done = lab("continue", "x", cwd=tmp_path)

    assert (killed.code, done.code) == (-9, 0), done.err
    assert left
    assert not list(tmp_path.glob(".lab/runs/x/trials/*/1/workspace"))
    assert lab("verify", "x", cwd=tmp_path).code == 0


def test_what_the_run_was_to_keep_when_it_began_stays(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    words = ("run", "--run-id", "x", "--keep-workspace", "always", "--max-concurrency", "1")
    lab(*words, cwd=tmp_path, env={"LAB_DIE_AT": "commit.acknowledged:2"})

    done = lab("continue", "x", cwd=tmp_path)

    assert done.code == 0, done.err
    assert len(list(tmp_path.glob(".lab/runs/x/trials/*/1/workspace"))) == 3
