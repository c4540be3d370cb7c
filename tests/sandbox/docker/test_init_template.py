"""What `lab init` writes for containers."""

import json
import subprocess
from pathlib import Path

from tests.kit.cli.calling import LAB


def test_the_template_for_containers_runs_as_it_is(tmp_path: Path, ash: str) -> None:
    def lab(folder: Path, *argv: str) -> str:
        done = subprocess.run([LAB, *argv], cwd=folder, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told = lab(tmp_path, "init", "fresh", "--template", "docker")
    assert told.splitlines()[-1] == "next: cd fresh && lab run"
    # No registry is asked for the image that it names.
    here = ("--set", f"sandbox.image={ash}")
    assert "fails on an untouched workspace" in lab(tmp_path / "fresh", "doctor", *here)
    done = json.loads(lab(tmp_path / "fresh", "run", "--json", *here))
    assert (done["status"]["counts"]["passed"], done["status"]["counts"]["failed"]) == (2, 2)
