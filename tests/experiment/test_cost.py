"""What a row of a large task file costs, counted in steps: those are the same on every machine."""

import json
import sys
from pathlib import Path
from types import FrameType

from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolving.load import load

ROWS = 500
MOST_CALLS = 120
"""Calls of Python functions for one row, from its line to its digest."""


def test_a_row_takes_few_steps_from_its_line_to_its_digest(tmp_path: Path) -> None:
    rows = [{"id": f"t{n}", "input": f"word {n}", "target": "x", "metadata": {"n": n}} for n in range(ROWS)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "experiment.yaml").write_text(
        "schema: 1\nname: large\ntasks: tasks.jsonl\nagent: {command: [sh]}\n"
        "grader: {command: [sh]}\nsandbox: {kind: process}\n"
    )
    load(tmp_path / "experiment.yaml", Overrides(limit=1))  # what is done once is done
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        experiment = load(tmp_path / "experiment.yaml", Overrides())
    finally:
        sys.setprofile(None)
    assert len(experiment.tasks) == ROWS
    assert calls / ROWS < MOST_CALLS
