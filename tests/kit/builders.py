"""Resolved experiments for tests, made in place: each argument replaces one field."""

from dataclasses import replace
from typing import Any

from labrunner.experiment.resolved import (
    Agent,
    Experiment,
    Grader,
    Network,
    Order,
    Resources,
    SandboxPlan,
    Setup,
    TaskSpec,
    Variant,
)
from labrunner.experiment.run_policy import BreakerPolicy, KeepPolicy, Policy
from labrunner.policy.budget import Budget
from labrunner.records.encoding import canonical

NO_NETWORK = Network(mode="none")


def make_agent(**changes: Any) -> Agent:
    agent = Agent(
        command=("agent",),
        dir=None,
        stdin="none",
        env={},
        secrets=(),
        user=None,
        network=NO_NETWORK,
        timeout_s=30.0,
        error_exit_codes={75: "provider"},
        require_result=False,
    )
    return replace(agent, **changes)


def make_grader(**changes: Any) -> Grader:
    grader = Grader(
        command=("grader",),
        dir=None,
        env={},
        secrets=(),
        user=None,
        network=NO_NETWORK,
        timeout_s=30.0,
        retries=0,
        pass_at=1.0,
        where="same",
        repeatable=False,
    )
    return replace(grader, **changes)


def make_sandbox(**changes: Any) -> SandboxPlan:
    plan = SandboxPlan(
        kind="fake",
        image=None,
        build=None,
        pull="preflight",
        prune_images=False,
        workdir=None,
        cpus=2.0,
        memory_mb=2048,
        pids=512,
        disk_mb=10240,
        read_only=False,
        tmpfs={},
        limits="enforced",
        asked=(),
    )
    return replace(plan, **changes)


def make_variant(id: str = "baseline", **changes: Any) -> Variant:
    variant = Variant(
        id=id,
        bindings={},
        agent=make_agent(),
        setup=Setup(),
        sandbox=make_sandbox(),
        digest=canonical.digest(["variant", id]),
    )
    return replace(variant, **changes)


def make_task(id: str = "t1", **changes: Any) -> TaskSpec:
    task = TaskSpec(
        id=id,
        input={"question": id},
        prompt=None,
        target=None,
        has_target=False,
        solution=None,
        image=None,
        workdir=None,
        workspace=None,
        files=(),
        setup=None,
        timeout_s=None,
        grader=make_grader(),
        group=None,
        tags=(),
        env={},
        metadata={},
        resources=Resources(),
        digest=canonical.digest(["task", id]),
    )
    return replace(task, **changes)


def make_policy(**changes: Any) -> Policy:
    policy = Policy(
        max_concurrency=4,
        fail_on_error=True,
        continue_on_fail=False,
        retry_on_error=0,
        breaker=BreakerPolicy(after=5, give_up_after_s=None),
        min_free_disk_gb=0.0,
        budget=Budget(cost_usd=None, tokens=None),
        keep=KeepPolicy(workspace="failed", logs="always"),
    )
    return replace(policy, **changes)


def make_experiment(**changes: Any) -> Experiment:
    experiment = Experiment(
        name="sums",
        description="",
        tags=(),
        source="",
        tasks=(make_task(),),
        variants=(make_variant(),),
        trust="standard",
        on_system_change="afresh",
        collect=(),
        replications=1,
        order=Order.BALANCED,
        seed=0,
        grade_on_agent_failure=True,
        metadata={},
        policy=make_policy(),
        digest=canonical.digest("sums"),
    )
    return replace(experiment, **changes)
