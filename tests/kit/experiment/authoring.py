"""Writes experiment files for tests, and loads them."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.resolving.load import Overrides, load

AGENT = 'agent: {command: [run-agent, "--fast"]}\n'
GRADER = "grader: {command: [grade]}\n"
TASKS = "tasks: [{id: a, input: do a}, {id: b, input: do b}]\n"
SMALL = f"name: small\n{TASKS}{AGENT}{GRADER}"


@dataclass(frozen=True)
class Bench:
    """A folder to write experiment files into. Messages name files relative to it."""

    root: Path

    def write(self, **files: str) -> "Bench":
        """Write files; `tasks_jsonl` names `tasks.jsonl`, `agent__run_sh` names `agent/run.sh`."""
        for name, text in files.items():
            path = self.root / _file_name(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return self

    def load(self, text: str, overrides: Overrides | None = None) -> Experiment:
        self.write(experiment_yaml=text)
        return load(Path("experiment.yaml"), overrides or Overrides())

    def complaint(self, text: str, overrides: Overrides | None = None) -> str:
        """What a person reads when an experiment file is refused."""
        with pytest.raises((InputError, InputErrors)) as caught:
            self.load(text, overrides)
        return str(caught.value)


def _file_name(name: str) -> str:
    *folders, last = name.split("__")
    return "/".join([*folders, ".".join(last.rsplit("_", 1))])


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Work in a folder, so that messages name files as a person there would."""
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(folder)
    assert Path.cwd() == Path(os.path.realpath(folder))
    return Bench(folder)
