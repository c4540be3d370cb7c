"""The same verdicts as the harnesses that other people's tasks come from, which are installed for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labrunner.interop.importers.shims import swe_bench_grade
from labrunner.interop.importers.swe_bench import READERS
from tests.kit.interop import swe_bench_peer

SWE_BENCH = ("swebench==5.0.2", "unidiff")


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_logs_and_lists_are_read_as_by_the_harness_of_swe_bench(tmp_path: Path) -> None:
    """Of 3,000 random logs, for every parser that is known: statuses, counts and verdicts are the same."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "peer"], check=True)
    python = tmp_path / "peer" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *SWE_BENCH], check=True)
    # Its package asks for much more on import than its grading needs.
    site = next((tmp_path / "peer" / "lib").glob("python*/site-packages"))
    for name in ("swebench", "swebench/harness"):
        (site / name / "__init__.py").write_text("")
    words = [
        str(python),
        str(swe_bench_peer.__file__),
        str(swe_bench_grade.__file__),
        "3000",
        json.dumps(dict(READERS)),
    ]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == {"compared": 3000, "differ": []}
