"""One play of an agent: run by the real `lab`, and everything that must be true of it afterwards."""

from pathlib import Path
from typing import Any

from labrunner.experiment.agents.installed import check_installed, list_installed
from tests.kit.agents.roles import ROLES, Role
from tests.kit.agents.stage import KEY, KEY_NAME, TOLD, find_settings, serve_script, write_play
from tests.kit.cli.calling import lab
from tests.kit.gateway.owning import find_daemons

PASSES = {"edit": "pass", "command": "pass", "fail": "fail"}
LACKS_A_SHELL = PASSES | {"command": "fail"}
QUERY = """
select t.task_id, t.verdict, count(*) as calls,
  sum(c.input_tokens + c.output_tokens) as tokens, round(sum(c.cost_usd), 6) as money
from trials t join calls c on c.trial_id = t.trial_id where c.purpose = 'generate' group by all
"""


def check_play(agent: str, folder: Path, sandbox: dict[str, Any], role: Role | None = None) -> None:
    """Let an agent play three tasks; verdicts, tokens, money, conversation, key, nothing left behind."""
    role = role or ROLES[agent]
    with serve_script(role) as server:
        write_play(folder, agent, role, server.url, sandbox)
        ran = lab("run", "--run-id", "play", cwd=folder, env={KEY_NAME: KEY}, timeout=900)
    assert ran.code == 0, ran.err + ran.out
    assert server.keys
    assert server.keys <= {KEY, f"Bearer {KEY}"}, "the provider gets the real key, and nobody else has it"
    if "system_prompt" in find_settings(agent):
        assert any(TOLD["system_prompt"] in body for body in server.bodies), "its model hears it"
    rows = lab("query", "play", "--json", QUERY, cwd=folder).json()
    assert {row["task_id"]: row["verdict"] for row in rows} == (PASSES if role.shell else LACKS_A_SHELL)
    for row in rows:
        assert row["tokens"] == 1100 * row["calls"]
        assert row["money"] == round(0.002 * row["calls"], 6)
    told = lab("show", "play", "edit", "--whole", cwd=folder).out
    assert "EDIT-IT: in notes.txt, write new for old." in " ".join(told.split())
    for path in (folder / ".lab").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    assert find_daemons(folder / ".lab/runs/play") == []
    [installed] = [found for _, found in list_installed() if found.name == agent]
    check_installed(installed, anew=True)  # it changed nothing of itself
