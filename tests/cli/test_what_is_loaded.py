"""What commands load: `lab --help` answers at once, and a run of one trial does not wait for statistics."""

import subprocess
import sys
from pathlib import Path

from tests.kit.cli.calling import environment, write_experiment

PROGRAM = """
import sys
from labrunner.cli.main import run
code = run(sys.argv[1:])
heavy = {"numpy", "scipy", "duckdb", "aiohttp", "tarfile", "labrunner.cli.carrying.retry"}
heavy |= {"httpx", "h11", "genai_prices", "labrunner.gateway.process.owner", "labrunner.trial.reaching"}
light = {"pydantic", "rich", "typer", "yaml", "jsonschema_rs", "asyncio"}
print("loaded:", *sorted((heavy | light) & sys.modules.keys()), file=sys.stderr)
sys.exit(code)
"""


def loaded_by(*words: str, cwd: Path) -> set[str]:
    argv = [sys.executable, "-c", PROGRAM, *words]
    ended = subprocess.run(argv, cwd=cwd, env=environment(), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.rpartition("loaded:")[2].split())


def test_help_loads_nothing_but_the_table_of_commands(tmp_path: Path) -> None:
    assert loaded_by("--help", cwd=tmp_path) == set()


def test_a_run_of_one_trial_loads_what_it_needs_and_no_more(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=1)
    loaded = loaded_by("run", "--sandbox", "process", cwd=tmp_path)
    assert loaded == {"pydantic", "rich", "typer", "yaml", "jsonschema_rs", "asyncio"}
