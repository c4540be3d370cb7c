from pathlib import Path

from labrunner.experiment.resolved import Resources
from labrunner.experiment.schedule import Slot
from labrunner.sandbox.door import GuestPaths
from labrunner.trial import phases
from labrunner.trial.assignment import Assignment, AttemptScene, TrialContext, set_scene
from labrunner.trial.phases import AgentEnding
from tests.kit.builders import make_agent, make_experiment, make_grader, make_task, make_variant

GUEST = GuestPaths(
    inputs="/agentlab/in",
    workspace="/agentlab/workspace",
    out="/agentlab/out",
    state="/agentlab/state",
    agent="/agentlab/agent",
    grader="/agentlab/grader",
    python="/usr/bin/python3",
    search_path="/usr/bin:/bin",
)


def scene(**changes: object) -> AttemptScene:
    task = make_task(
        grader=make_grader(command=("${python}", "${grader_dir}/grade.py"), env={"G": "${workspace}"}),
        prompt="hello",
        env={"SHARED": "$$5"},
        timeout_s=7.5,
    )
    variant = make_variant(
        agent=make_agent(command=("${python}", "${agent_dir}/a.py", "cost: $$1"), env={"A": "${prompt_path}"})
    )
    experiment = make_experiment(tasks=(task,), variants=(variant,))
    context = TrialContext(
        experiment=experiment, run_id="r", trials_dir=Path("/runs/r/trials"), host="h", secrets={}
    )
    slot = Slot(schedule_idx=3, variant_idx=0, task_idx=0, repl_idx=2)
    return set_scene(context, Assignment(token="t", slot=slot, trial_id="trial", attempt=2))


def test_the_agent_gets_the_whole_contract() -> None:
    phase = phases.agent_phase(scene(), GUEST)

    assert phase.argv == ("/usr/bin/python3", "/agentlab/agent/a.py", "cost: $1")
    assert phase.timeout_s == 7.5
    assert phase.env == {
        "AGENTLAB_RUN_ID": "r",
        "AGENTLAB_TRIAL_ID": "trial",
        "AGENTLAB_VARIANT_ID": "baseline",
        "AGENTLAB_TASK_ID": "t1",
        "AGENTLAB_REPL_IDX": "2",
        "AGENTLAB_ATTEMPT": "2",
        "AGENTLAB_WORKSPACE": "/agentlab/workspace",
        "AGENTLAB_TASK_PATH": "/agentlab/in/task.json",
        "AGENTLAB_PROMPT_PATH": "/agentlab/in/prompt.txt",
        "AGENTLAB_BINDINGS_PATH": "/agentlab/in/bindings.json",
        "AGENTLAB_POLICY_PATH": "/agentlab/in/policy.json",
        "AGENTLAB_RESULT_PATH": "/agentlab/out/result.json",
        "AGENTLAB_EVENTS_PATH": "/agentlab/state/events.jsonl",
        "AGENTLAB_TIMEOUT_MS": "7500",
        "AGENTLAB_AGENT_DIR": "/agentlab/agent",
        "LANG": "C.UTF-8",
        "PATH": "/agentlab/agent/bin:/usr/bin:/bin",
        "SHARED": "$5",
        "A": "/agentlab/in/prompt.txt",
    }


def test_the_grader_gets_its_own_variables_and_no_agent_dir() -> None:
    phase = phases.grader_phase(scene(), GUEST, AgentEnding(status="137", outcome="exited"))

    assert phase.argv == ("/usr/bin/python3", "/agentlab/grader/grade.py")
    assert phase.env["AGENTLAB_BENCHMARK_PREDICTION_PATH"] == "/agentlab/out/benchmark_prediction.json"
    assert phase.env["AGENTLAB_BENCHMARK_SCORE_PATH"] == "/agentlab/out/benchmark_score.json"
    assert phase.env["AGENTLAB_AGENT_EXIT_STATUS"] == "137"
    assert phase.env["AGENTLAB_AGENT_OUTCOME"] == "exited"
    assert phase.env["AGENTLAB_GRADER_DIR"] == "/agentlab/grader"
    assert phase.env["AGENTLAB_TARGET_PATH"] == "/agentlab/grader/target.json"
    assert phase.env["PATH"] == "/agentlab/grader/bin:/usr/bin:/bin"
    assert phase.env["G"] == "/agentlab/workspace"
    assert "AGENTLAB_AGENT_DIR" not in phase.env
    assert "A" not in phase.env


def test_a_tasks_own_limits_replace_the_variants_and_count_as_asked() -> None:
    base = scene()
    task = make_task(resources=Resources(memory_mb=64))
    experiment = make_experiment(tasks=(task,))
    context = TrialContext(experiment=experiment, run_id="r", trials_dir=Path("/t"), host="h", secrets={})
    plan = phases.sandbox_plan(set_scene(context, base.assignment))

    assert (plan.memory_mb, plan.pids, plan.asked) == (64, 512, ("memory_mb",))
