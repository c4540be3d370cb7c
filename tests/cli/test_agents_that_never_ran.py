"""An agent that can't start is told wherever its score is told."""

from pathlib import Path

import pytest

from labrunner.records.encoding.ids import make_trial_id
from tests.kit.cli.calling import lab, write_experiment
from tests.kit.view.handouts import read_handout

AGENT = """
import os, pathlib, sys
if os.environ["AGENTLAB_VARIANT_ID"] == "broken":
    sys.stderr.write("invalid auth method")
    sys.exit(41)
prompt = pathlib.Path(os.environ["AGENTLAB_PROMPT_PATH"]).read_text()
pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").write_text(prompt.upper())
"""
GRADER = """
import json, os, pathlib
answer = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt")
verdict = {"verdict": "pass" if answer.exists() else "fail"}
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps(verdict))
"""
TRIAL = make_trial_id("broken", "t0", 0)
VARIANTS = "variants: [{id: sound}, {id: broken}]\n"
WARNING = (
    "broken: 3 of 3 agents exited with 41; 3 of 3 agents changed nothing and handed in nothing; "
    "none of these passed: did they really run?"
)


@pytest.fixture(scope="module", params=["process", pytest.param("bubblewrap", marks=pytest.mark.bwrap)])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("never-ran") / "experiment"
    write_experiment(folder, sandbox=request.param, agent=AGENT, grader=GRADER, extra=VARIANTS)
    return folder


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_a_variant_whose_agents_never_ran_is_told_everywhere(place: Path) -> None:
    ended = lab("run", "--run-id", "r", cwd=place)
    assert ended.code == 0
    see = f"; see: lab show r {TRIAL}"
    assert WARNING + see in one_line(ended.out)
    assert "sound: 3 of 3" not in ended.out
    assert WARNING + see in one_line(lab("show", "r", cwd=place).out)
    assert WARNING + see in one_line(lab("compare", "r", cwd=place).out)

    told = lab("show", "r", "--json", cwd=place).json()["summary"]["ext"]["warnings"]
    assert [(each["kind"], each["trial_id"]) for each in told] == [("never_ran", TRIAL)]
    compared = lab("compare", "r", "--json", cwd=place).json()
    assert [each["kind"] for each in compared["warnings"]] == ["never_ran"]

    for kind, read in (("markdown", Path.read_text), ("html", read_handout)):
        assert lab("export", "r", "--to", kind, "--output", f"out.{kind}", cwd=place).code == 0
        assert "did they really run?" in read(place / f"out.{kind}")


def test_the_trial_to_look_at_says_what_its_agent_left(place: Path) -> None:
    lab("run", "--run-id", "seen", "--variant", "broken", "--limit", "1", cwd=place)
    shown = lab("show", "seen", TRIAL, cwd=place).out
    assert "nothing: it changed and handed in nothing" in shown
    assert "invalid auth method" in shown
