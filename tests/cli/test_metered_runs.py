"""Runs of agents with a model, by the real `lab`: what they used is the meter's word, through every retry."""

import json
from pathlib import Path

import pytest

from tests.kit.cli.calling import GRADER, lab, write_experiment

TALKS = """
import json, os, pathlib, urllib.request

def ask(*messages):
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": os.environ["MODEL"], "messages": messages, "max_tokens": 50}).encode(),
        {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"},
    )
    return json.loads(urllib.request.urlopen(request, timeout=60).read())["choices"][0]["message"]

prompt = pathlib.Path(os.environ["AGENTLAB_PROMPT_PATH"]).read_text()
first = {"role": "user", "content": prompt + " " + os.environ["A_SECRET"]}
ask(first, ask(first), {"role": "user", "content": "really?"})
pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").write_text(prompt.upper())
pathlib.Path(os.environ["AGENTLAB_RESULT_PATH"]).write_text(json.dumps({
    "schema_version": "agent_result_v1",
    "ids": {"run_id": os.environ["AGENTLAB_RUN_ID"], "trial_id": os.environ["AGENTLAB_TRIAL_ID"],
            "variant_id": os.environ["AGENTLAB_VARIANT_ID"], "task_id": os.environ["AGENTLAB_TASK_ID"],
            "repl_idx": int(os.environ["AGENTLAB_REPL_IDX"])},
    "outcome": "success", "metrics": {"tokens": 1, "cost_usd": 99}}))
if os.environ["AGENTLAB_TASK_ID"] in pathlib.Path(os.environ["BAD"]).read_text().split():
    raise SystemExit(75)
"""
ANSWERS = [
    {"when": "really?", "text": "yes", "input_tokens": 200, "output_tokens": 20},
    {"text": "let me think", "input_tokens": 100, "output_tokens": 10},
]
COST = 0.0006
"""USD of one attempt: 300 tokens in at 1, 30 out at 10 for a million."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An experiment whose agent for t1 fails: priced for one variant, not for the other."""
    made = write_experiment(tmp_path / "e", agent=TALKS, grader=GRADER, tasks=2)
    path = made / "experiment.yaml"
    agent = (
        "env: {BAD: " + str(made / "bad") + "}, secrets: [A_SECRET], network: {models: [mock], allow: full}"
    )
    text = path.read_text().replace("dir: agent, ", f"dir: agent, {agent}, ")
    path.write_text(
        text
        + "models: {mock: {dialect: openai, script: answers.json, prices: {m: {input: 1, output: 10}}}}\n"
        + "variants: [{id: a, agent: {env: {MODEL: m}}}, {id: b, agent: {env: {MODEL: unknown}}}]\n"
        + "fail_on_error: false\nretry_on_error: 1\n"
    )
    (made / "answers.json").write_text(json.dumps({"answers": ANSWERS}))
    (made / "bad").write_text("t1")
    return made


def test_tokens_and_money_of_all_attempts_are_the_meters_and_go_on_in_retries(folder: Path) -> None:
    env = {"A_SECRET": "hunter2-hunter2"}
    ran = lab("run", "--run-id", "r1", cwd=folder, env=env)
    assert ran.code == 0, ran.err
    figures = lab("show", "r1", "--json", cwd=folder).json()["summary"]["ext"]["figures"]
    spent = figures["a"]["expense"]
    assert (spent["tokens"]["total"], spent["tokens"]["discarded"]) == (990, 330)
    assert spent["cost_usd"]["total"] == pytest.approx(3 * COST)
    assert figures["a"]["price"]["cost_usd"] == pytest.approx(3 * COST)
    unpriced = figures["b"]["expense"]
    assert "cost_usd" not in unpriced
    assert unpriced["unpriced_requests"]["total"] == 6
    assert "b: 6 calls to models without a price" in " ".join(lab("show", "r1", cwd=folder).out.split())
    compared = lab("compare", "r1", cwd=folder).out
    assert "calls without a price" in compared
    assert "0.0018" in compared

    (folder / "bad").write_text("")
    assert lab("retry", "r1", "--run-id", "r2", cwd=folder, env=env).code == 0
    retried = lab("show", "r2", "--json", cwd=folder).json()["summary"]["ext"]["figures"]["a"]
    assert retried["expense"]["cost_usd"]["total"] == pytest.approx(4 * COST)
    assert retried["expense"]["cost_usd"]["discarded"] == pytest.approx(2 * COST)
    assert retried["price"]["cost_usd"] == pytest.approx(4 * COST)
    assert "1,320 tokens and 0.0012 USD" in " ".join(lab("show", "r2", cwd=folder).out.split())
    found = lab("query", "r1", "select attempt, count(*) as n from calls group by 1", "--json", cwd=folder)
    assert sorted((row["attempt"], row["n"]) for row in found.json()) == [(1, 8), (2, 4)]

    for run in ("r1", "r2"):
        assert lab("verify", run, cwd=folder).out.startswith(f"{run}: sound, complete")
    files = [path for path in (folder / ".lab").rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in files if b"hunter2" in path.read_bytes()]
    shown = lab("show", "r2", "t1.a", cwd=folder).out
    assert "user       word 1 [masked:A_SECRET]" in shown
    assert "in all: 2 calls, 300 tokens in, 30 out, $0.0006" in shown
