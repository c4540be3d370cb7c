import subprocess
from pathlib import Path

from tests.cli.calling import LAB, environment, lab, write_experiment


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command.replace("lab", str(LAB))],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_a_run_without_any_stream_goes_to_its_end(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=2)

    ended = shell("exec lab run --run-id x <&- >&- 2>&-", tmp_path)

    assert ended.returncode == 0
    assert "complete: 2 of 2 committed" in lab("verify", "x", cwd=tmp_path).out


def test_output_that_can_not_be_written_is_told_in_words(tmp_path: Path) -> None:
    ended = shell("lab log list >/dev/full", tmp_path)
    assert (ended.returncode, ended.stderr) == (
        3,
        "lab log: writing to standard output: No space left on device\n",
    )


def test_a_current_folder_that_is_gone_is_told_in_words(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=1)
    ended = shell(
        'dir=$PWD; mkdir gone && cd gone && rmdir "$dir/gone" && lab run "$dir/experiment.yaml"', tmp_path
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "lab run: the current folder is gone; change to one that exists\n",
    )
