"""Who is to blame when a named agent does not get through: provider, setup, the experiment, or the agent."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kit.agents.roles import Role
from tests.kit.agents.stage import KEY, KEY_NAME, serve_script
from tests.kit.cli.calling import lab
from tests.kit.depot.packages import write_named_experiment

ASK = """
about: asks its model once
dialects: [openai]
command: [sh, -c, $program]
files: {body.json: '{"model": "$model", "messages": [{"role": "user", "content": "hi"}]}'}
error_exit_codes: {69: setup, 75: provider}
"""
CURL = """curl -s $LAB_MODEL_MAIN_URL/chat/completions -H "authorization: Bearer $LAB_MODEL_MAIN_KEY" \\
-H "content-type: application/json" -d "@$HOME/body.json" > answer.json; exit """
ROLE = Role(dialect="openai", model="well")
ANSWERS: list[dict[str, Any]] = [
    {"model": "down", "fail": {"status": 503}},
    {"model": "well", "text": "hello"},
]
ENDS = {
    ("down", 1, True): ("no grade", "provider"),
    ("down", 0, False): ("no grade", "provider"),
    ("down", 0, True): ("pass", None),
    ("well", 3, True): ("pass", None),
    ("well", 0, False): ("pass", None),
    ("well", 69, True): ("no grade", "setup"),
    ("well", 75, True): ("no grade", "provider"),
}
"""Of model, exit status and whether that tells anything. The grader passes whatever it sees."""


def write(folder: Path, url: str, cases: Sequence[tuple[str, int, bool]]) -> Path:
    """An agent that asks its model once, as a variant for each case."""
    (folder / "asker.yaml").write_text(ASK)
    variants = [
        {
            "id": str(number),
            "bindings": {"program": f"{CURL}{status}"},
            "agent": {"model": f"main/{model}", "exit_tells": exit_tells},
        }
        for number, (model, status, exit_tells) in enumerate(cases)
    ]
    write_named_experiment(
        folder, "use: ./asker.yaml", f"variants: {json.dumps(variants)}\nfail_on_error: false"
    )
    file = folder / "experiment.yaml"
    model = f'{{dialect: openai, base_url: "{url}", key: {KEY_NAME}, max_retries: 0}}'
    file.write_text(file.read_text().replace('{dialect: openai, base_url: "http://127.0.0.1:9/v1"}', model))
    return folder


def test_whose_fault_it_was_is_told_by_catalogue_and_calls(tmp_path: Path) -> None:
    with serve_script(ROLE, ANSWERS) as server:
        write(tmp_path, server.url, list(ENDS))
        lab("run", "--run-id", "one", cwd=tmp_path, env={KEY_NAME: KEY})
    rows = lab("query", "one", "--json", "select variant_id, verdict, cause from trials", cwd=tmp_path).json()
    found = {int(row["variant_id"]): (row["verdict"] or "no grade", row["cause"]) for row in rows}
    assert {case: found[number] for number, case in enumerate(ENDS)} == ENDS


def test_a_missing_key_is_refused_before_anything_runs(tmp_path: Path) -> None:
    answer = lab("run", cwd=write(tmp_path, "http://127.0.0.1:9/v1", [("well", 0, True)]))
    assert answer.code == 2
    assert f"models.main: no value for {KEY_NAME}, its key" in answer.err


def test_doctor_asks_for_the_model_that_a_named_agent_is_told(tmp_path: Path) -> None:
    with serve_script(ROLE, ANSWERS) as server:
        write(tmp_path, server.url, [("misspelt", 0, True)])
        answer = lab("doctor", cwd=tmp_path, env={KEY_NAME: KEY})
    assert answer.code == 2
    assert "misspelt" in answer.out
    assert "the script has no answer" in " ".join(answer.out.split())
