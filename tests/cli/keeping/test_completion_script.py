"""`lab completion`, in a real bash."""

import shutil
import subprocess
from pathlib import Path

import pytest

from labrunner.cli.catalogue import COMMANDS
from tests.kit.cli.calling import lab


def complete(script: str, *words: str, cwd: Path) -> list[str]:
    """What bash offers for the last of these words."""
    asked = " ".join(f"'{word}'" for word in words)
    code = f'{script}\nCOMP_WORDS=({asked}) COMP_CWORD={len(words) - 1}\n_lab\necho "${{COMPREPLY[@]}}"'
    ended = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, cwd=cwd)
    return ended.stdout.split()


def test_bash_completes_commands_options_and_runs(tmp_path: Path) -> None:
    script = lab("completion", "bash", cwd=tmp_path).out
    (tmp_path / ".lab" / "runs" / "night-7").mkdir(parents=True)
    assert set(COMMANDS) <= set(complete(script, "lab", "", cwd=tmp_path))
    assert complete(script, "lab", "con", cwd=tmp_path) == ["continue"]
    assert complete(script, "lab", "run", "--max-conc", cwd=tmp_path) == ["--max-concurrency"]
    assert complete(script, "lab", "eval", "--max-conc", cwd=tmp_path) == ["--max-concurrency"]
    assert complete(script, "lab", "show", "ni", cwd=tmp_path) == ["night-7"]
    assert complete(script, "lab", "compare", "la", cwd=tmp_path) == ["last"]
    assert complete(script, "lab", "log", "rec", cwd=tmp_path) == ["recover"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_that_they_can_read(tmp_path: Path, shell: str) -> None:
    script = lab("completion", shell, cwd=tmp_path)
    assert script.code == 0
    assert "continue" in script.out
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=script.out, text=True).returncode == 0


def test_an_unknown_shell_is_refused(tmp_path: Path) -> None:
    assert lab("completion", "tcsh", cwd=tmp_path).code == 2
