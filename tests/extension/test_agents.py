"""Agents by name: from another package, or from a file beside the experiment."""

from pathlib import Path
from typing import Any

import pytest

from tests.kit.cli.calling import lab, write_experiment
from tests.kit.extending.extras import write_extras
from tests.kit.extending.packages import write_package

WRITTEN = "agent: {command: [$python, $agent_dir/agent.py], dir: agent, timeout_s: 60}"


def using(folder: Path, agent: str, extra: str = "") -> Path:
    write_experiment(folder, tasks=2, extra=extra)
    file = folder / "experiment.yaml"
    assert WRITTEN in file.read_text()
    file.write_text(file.read_text().replace(WRITTEN, f"agent: {agent}"))
    return folder


def agents_of(folder: Path, env: dict[str, str] | None = None) -> list[Any]:
    answer = lab("plan", "--json", cwd=folder, env=env)
    assert answer.code == 0, answer.err
    return [variant["agent"] for variant in answer.json()["experiment"]["variants"]]


def test_a_run_of_a_foreign_agent(tmp_path: Path) -> None:
    folder = using(tmp_path / "e", "{use: shouter}")
    answer = lab("run", cwd=folder, env=write_extras(tmp_path / "site"))
    assert answer.code == 0, answer.err
    totals = lab("show", "last", "--json", cwd=folder).json()["summary"]["totals"]
    assert (totals["trials"], totals["pass"]) == (2, 1)


def test_what_the_experiment_writes_lies_over_what_the_agent_brings(tmp_path: Path) -> None:
    folder = using(tmp_path / "e", "{use: shouter, timeout_s: 5, env: {MOOD: bad, VOICE: null}}")
    (agent,) = agents_of(folder, write_extras(tmp_path / "site"))
    assert agent["timeout_s"] == 5.0
    assert agent["env"] == {"MOOD": "bad"}
    assert agent["dir"]["path"] == str(tmp_path / "site" / "lab_extras" / "agent")
    assert "use" not in agent


def test_a_known_agent_is_digested_as_if_it_were_written_out(tmp_path: Path) -> None:
    plain = write_experiment(tmp_path / "plain", tasks=2)
    used = using(tmp_path / "used", "{use: ./shout.yaml}")
    (used / "shout.yaml").write_text(WRITTEN.removeprefix("agent: "))
    digests = [lab("plan", "--json", cwd=each).json()["experiment"]["digest"] for each in (plain, used)]
    assert digests[0] == digests[1]


def test_variants_may_use_different_agents(tmp_path: Path) -> None:
    extra = "matrix: {who: [careful, short]}\n"
    folder = using(tmp_path / "e", "{use: ./agents/$who.yaml, timeout_s: 9}", extra)
    (folder / "agents").mkdir()
    for name in ("careful", "short"):
        (folder / "agents" / f"{name}.yaml").write_text(f"command: [echo, {name}]\n")
    found = agents_of(folder)
    assert [agent["command"] for agent in found] == [["echo", "careful"], ["echo", "short"]]
    assert [agent["timeout_s"] for agent in found] == [9.0, 9.0]


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (
            "{use: nobody}",
            "the agent 'nobody' can't be used: there is no agent 'nobody'; known: ",
        ),
        ("{use: ./no.yaml}", "agent.use: the agent './no.yaml' can't be used: there is no file '"),
        ("{use: ./list.yaml}", "an agent's file is a map of its fields (command, dir, env, …), found a list"),
        ("{use: ./odd.yaml}", "odd.yaml:2: comand: there is no such field; did you mean 'command'?"),
        ("{use: ./again.yaml}", "again.yaml:1: use: an agent's file can't use another"),
        ("{use: ./empty.yaml}", "experiment.yaml:4: agent.command: is missing"),
    ],
)
def test_an_agent_that_can_not_be_used_is_told(tmp_path: Path, agent: str, told: str) -> None:
    folder = using(tmp_path / "e", agent)
    (folder / "list.yaml").write_text("- a\n")
    (folder / "odd.yaml").write_text("timeout_s: 4\ncomand: x\n")
    (folder / "again.yaml").write_text("use: shouter\n")
    (folder / "empty.yaml").write_text("timeout_s: 4\n")
    answer = lab("plan", cwd=folder, env=write_extras(tmp_path / "site"))
    assert answer.code == 2
    assert told in answer.err


def test_an_entry_that_is_no_file_is_refused(tmp_path: Path) -> None:
    points = {"labrunner.agents": {"bad": "lab_bad:AGENT"}}
    site = write_package(tmp_path / "site", "lab-bad", {"lab_bad.py": "AGENT = {'command': 'x'}"}, points)
    answer = lab("plan", cwd=using(tmp_path / "e", "{use: bad}"), env={"PYTHONPATH": str(site)})
    assert answer.code == 2
    assert "must be the Path of a YAML file, found a dict" in answer.err
