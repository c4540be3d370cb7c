"""How an attempt ends by what the gateway recorded of its calls: every end of an agent x what calls say."""

from pathlib import Path
from typing import Any

import pytest

from labrunner.gateway.recording.calljournal import CALLS
from labrunner.records.cause import Cause
from labrunner.records.completion import Cancelled, Completion, Failed, Graded
from labrunner.records.encoding import canonical
from labrunner.records.facts.model_call import CallCap, CallError, CallRow, CallTokens
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from tests.kit.builders import make_agent, make_experiment, make_variant
from tests.kit.gateway.callrows import make_row
from tests.kit.trial.attempting import Attempt, Step, exits, scores

ANSWER = make_row(tokens=CallTokens(input=10, output=5), cost_usd=0.25)
DOWN = make_row(end="error", status=529, error=CallError(kind="overloaded_error", message="Overloaded"))
REFUSED = make_row(end="error", status=401, error=CallError(kind="authentication_error", message="no"))
MISSED = make_row(end="missed", status=404, error=CallError(kind="replay_miss", message="no such call"))
CAPPED = make_row(end="capped", status=402, cap=CallCap(limit="cost", whose="attempt"))
OVER_BUDGET = make_row(end="capped", status=402, cap=CallCap(limit="tokens", whose="run"))

AGENTS: dict[str, Step] = {
    "exit 0": exits(0),
    "exit 1": exits(1),
    "exit 75": exits(75),
    "timed out": exits(None, timed_out=True),
    "out of memory": exits(137, oom_killed=True),
    "over its disk": exits(None, over_disk=True),
}
GRADED = "graded"
TABLE: dict[str, tuple[list[CallRow], dict[str, object]]] = {
    "all was well": ([ANSWER], {}),
    "got over it": ([DOWN, ANSWER], {}),
    "the provider was down": (
        [ANSWER, DOWN],
        {"exit 1": Cause.PROVIDER, "timed out": Cause.PROVIDER},
    ),
    "the key was refused at the end": (
        [ANSWER, REFUSED],
        {"exit 1": Cause.ACCOUNT, "timed out": Cause.ACCOUNT},
    ),
    "the key was always refused": (
        [REFUSED],
        {"exit 0": Cause.ACCOUNT, "exit 1": Cause.ACCOUNT, "timed out": Cause.ACCOUNT},
    ),
    "asked what was not recorded": ([ANSWER, MISSED, ANSWER], dict.fromkeys(AGENTS, Cause.REPLAY)),
    "over a cap": ([DOWN, CAPPED], {"exit 75": GRADED}),
}


def calling(calls: list[CallRow], step: Step) -> Step:
    def run(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        (folders.root / CALLS).write_bytes(b"".join(canonical.encode_line(each) for each in calls))
        return step(phase, folders)

    return run


async def carry_out(folder: Path, calls: list[CallRow], agent: Step, **fields: Any) -> Completion:
    experiment = make_experiment(variants=(make_variant(agent=make_agent(**fields)),))
    steps = {"agent": calling(calls, agent), "grader": scores('{"verdict": "pass"}')}
    return await Attempt(experiment, folder, steps).carry_out()


@pytest.mark.parametrize("calls", TABLE)
@pytest.mark.parametrize("agent", AGENTS)
async def test_what_calls_say_decides_only_where_an_agent_did_not_succeed(
    tmp_path: Path, agent: str, calls: str
) -> None:
    rows, decided = TABLE[calls]
    expected = decided.get(agent, Cause.PROVIDER if agent == "exit 75" else GRADED)

    end = (await carry_out(tmp_path, rows, AGENTS[agent])).end

    assert (GRADED if isinstance(end, Graded) else end.cause if isinstance(end, Failed) else end) == expected


async def test_a_message_has_the_agents_end_and_its_last_call(tmp_path: Path) -> None:
    end = (await carry_out(tmp_path, [ANSWER, DOWN], exits(1))).end
    assert isinstance(end, Failed)
    assert end.reason == "provider_error"
    assert end.message == (
        "the agent ended with exit status 1; its last call of claude (m), of 2 in all, failed: 529, "
        "overloaded_error, Overloaded"
    )


async def test_an_agent_without_the_result_that_it_owes_has_not_succeeded(tmp_path: Path) -> None:
    end = (await carry_out(tmp_path, [DOWN], exits(0), require_result=True)).end
    assert isinstance(end, Failed)
    assert end.message.startswith("the agent ended with exit status 0 and without a result; ")


@pytest.mark.parametrize("limit", ["cost", "tokens", "requests"])
async def test_a_cap_is_a_limit_like_any_other_and_what_was_left_is_graded(
    tmp_path: Path, limit: Any
) -> None:
    capped = make_row(end="capped", status=402, cap=CallCap(limit=limit, whose="attempt"))
    end = (await carry_out(tmp_path, [ANSWER, capped], exits(None))).end
    assert isinstance(end, Graded)
    assert (end.verdict, end.ended_by) == ("pass", limit)


@pytest.mark.parametrize("agent", ["exit 0", "exit 1"])
async def test_what_the_runs_budget_cut_short_is_no_measurement(tmp_path: Path, agent: str) -> None:
    completion = await carry_out(tmp_path, [ANSWER, OVER_BUDGET], AGENTS[agent])
    assert completion.end == Cancelled(reason="budget_tokens")
    assert completion.timing.usage["cost_usd"] == 0.25


async def test_use_is_what_the_gateway_counted_and_what_the_agent_says_stands_beside_it(
    tmp_path: Path,
) -> None:
    def boast(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        names = ("run_id", "trial_id", "variant_id", "task_id")
        told = {
            "schema_version": "agent_result_v1",
            "ids": {name: phase.env[f"AGENTLAB_{name.upper()}"] for name in names} | {"repl_idx": 0},
            "outcome": "success",
            "metrics": {"cost_usd": 0.01, "tokens": 3},
        }
        (folders.out / "result.json").write_bytes(canonical.encode(told))
        return PhaseEnd(exit_status=0)

    usage = (await carry_out(tmp_path, [ANSWER, ANSWER], boast)).timing.usage
    assert (usage["cost_usd"], usage["tokens"], usage["requests"]) == (0.5, 30, 2)
    assert (usage["reported_cost_usd"], usage["reported_tokens"]) == (0.01, 3)


async def test_what_was_used_counts_though_the_sandbox_broke(tmp_path: Path) -> None:
    from labrunner.errors import SandboxFailed

    def breaks(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        raise SandboxFailed("gone", "the engine died")

    completion = await carry_out(tmp_path, [ANSWER], breaks)
    assert isinstance(completion.end, Failed)
    assert completion.end.cause is Cause.SANDBOX
    assert completion.timing.usage["cost_usd"] == 0.25
