import json
import os
from pathlib import Path

import msgspec
import pytest

from labrunner.errors import SandboxFailed
from labrunner.experiment.folders import digest_folder
from labrunner.experiment.resolved import Folder, Setup, Solution, WorkspaceFile
from labrunner.experiment.run_policy import KeepPolicy
from labrunner.files.strangers.removal import remove_tree
from labrunner.records.cause import Cause
from labrunner.records.completion import Failed, Graded
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from tests.kit.builders import (
    make_agent,
    make_experiment,
    make_grader,
    make_policy,
    make_task,
    make_variant,
)
from tests.kit.trial.attempting import Attempt, ok, scores

PASS = scores('{"verdict": "pass"}')


async def test_a_planted_verdict_does_nothing(tmp_path: Path) -> None:
    run = Attempt(make_experiment(), tmp_path, {"agent": PASS, "grader": ok})

    completion = await run.carry_out()

    assert isinstance(completion.end, Failed)
    assert completion.end.reason == "score_missing"


@pytest.mark.parametrize("node", [None, "gpu-3/4f1c09ab"])
async def test_which_node_of_a_cluster_carried_it_out_is_told_with_its_times(
    tmp_path: Path, node: str | None
) -> None:
    completion = await Attempt(make_experiment(), tmp_path, {"grader": PASS}, node=node).carry_out()

    assert completion.timing.node == node
    assert ("node" in msgspec.to_builtins(completion.timing)) == (node is not None)


@pytest.mark.parametrize("kind", ["folder", "symlink", "fifo"])
async def test_whatever_is_planted_at_the_verdicts_path_is_cleared(tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")

    def plant(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        path = folders.out / "benchmark_score.json"
        if kind == "folder":
            (path / "deep").mkdir(parents=True)
        elif kind == "symlink":
            path.symlink_to(outside)
        else:
            os.mkfifo(path)
        return PhaseEnd(exit_status=0)

    run = Attempt(make_experiment(), tmp_path / "trials", {"agent": plant, "grader": PASS})
    completion = await run.carry_out()

    assert isinstance(completion.end, Graded)
    assert outside.read_text() == "untouched"


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (PhaseEnd(exit_status=None, timed_out=True), ("124", "timed_out")),
        (PhaseEnd(exit_status=137, timed_out=True), ("124", "timed_out")),
        (PhaseEnd(exit_status=None, over_disk=True), ("137", "exited")),
        (PhaseEnd(exit_status=3), ("3", "exited")),
    ],
)
async def test_a_grader_is_told_a_number_however_its_agent_ended(
    tmp_path: Path, end: PhaseEnd, told: tuple[str, str]
) -> None:
    run = Attempt(make_experiment(), tmp_path, {"agent": lambda phase, folders: end, "grader": PASS})

    await run.carry_out()

    env = run.phases[-1].env
    assert (env["AGENTLAB_AGENT_EXIT_STATUS"], env["AGENTLAB_AGENT_OUTCOME"]) == told


async def test_nothing_of_the_grader_is_there_before_the_barrier(tmp_path: Path) -> None:
    grader_dir = tmp_path / "hidden"
    grader_dir.mkdir()
    (grader_dir / "grade.py").write_text("SECRET-TEST")
    task = make_task(
        grader=make_grader(
            dir=Folder(path=str(grader_dir), digest="sha256:0"), env={"GRADER_ONLY": "SECRET-ENV"}
        ),
        target="SECRET-TARGET",
        has_target=True,
        solution=Solution(command=("SECRET-SOLUTION",)),
        metadata={"note": "SECRET-NOTE"},
    )
    seen: dict[str, str] = {}

    def look(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        texts = [path.read_text() for path in folders.root.rglob("*") if path.is_file()]
        seen[phase.name] = repr((texts, dict(phase.env), phase.argv))
        return PASS(phase, folders) if phase.name == "grader" else PhaseEnd(exit_status=0)

    experiment = make_experiment(tasks=(task,), variants=(make_variant(setup=Setup(command=("prepare",))),))
    run = Attempt(experiment, tmp_path / "trials", dict.fromkeys(("setup", "agent", "grader"), look))
    await run.carry_out()

    assert "SECRET" not in seen["setup"]
    assert "SECRET" not in seen["agent"]
    for secret in ("SECRET-TEST", "SECRET-ENV", "SECRET-TARGET"):
        assert secret in seen["grader"]
    assert "SECRET-SOLUTION" not in seen["grader"]


async def test_the_coordinator_hears_of_barrier_and_grader_in_order(tmp_path: Path) -> None:
    run = Attempt(make_experiment(), tmp_path, {"grader": PASS})

    await run.carry_out()

    assert run.notes.heard == ["barrier", "grader", "gone"]


async def test_the_grader_is_tried_again_alone(tmp_path: Path) -> None:
    answers = iter([ok, PASS])
    task = make_task(grader=make_grader(retries=1))
    run = Attempt(
        make_experiment(tasks=(task,)),
        tmp_path,
        {"grader": lambda phase, folders: next(answers)(phase, folders)},
    )

    completion = await run.carry_out()

    assert isinstance(completion.end, Graded)
    assert completion.grader_tries == 2
    assert [phase.name for phase in run.phases] == ["agent", "grader", "grader"]


async def test_a_grader_that_never_answers_uses_up_its_retries(tmp_path: Path) -> None:
    task = make_task(grader=make_grader(retries=2))
    run = Attempt(make_experiment(tasks=(task,)), tmp_path, {})

    completion = await run.carry_out()

    assert isinstance(completion.end, Failed)
    assert completion.grader_tries == 3


async def test_a_broken_prediction_is_a_grade_error(tmp_path: Path) -> None:
    def grade(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        (folders.out / "benchmark_prediction.json").write_text('{"kind": "guess"}')
        return PASS(phase, folders)

    completion = await Attempt(make_experiment(), tmp_path, {"grader": grade}).carry_out()

    assert isinstance(completion.end, Failed)
    assert completion.end.reason == "prediction_shape"


async def test_a_large_prediction_is_named_by_its_digest(tmp_path: Path) -> None:
    def grade(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        prediction = {"kind": "text", "value": "x" * 100_000}
        (folders.out / "benchmark_prediction.json").write_text(json.dumps(prediction))
        return PASS(phase, folders)

    completion = await Attempt(make_experiment(), tmp_path, {"grader": grade}).carry_out()

    assert isinstance(completion.end, Graded)
    assert completion.end.prediction is not None
    named = {file.path: file.digest for file in completion.files}["out/benchmark_prediction.json"]
    assert completion.end.prediction.artifact_ref == f"artifact://{named.replace(':', '/')}"


async def test_a_sandbox_that_fails_is_its_own_cause(tmp_path: Path) -> None:
    def fail(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        raise SandboxFailed("no_launch", "could not start")

    completion = await Attempt(make_experiment(), tmp_path, {"agent": fail}).carry_out()

    assert isinstance(completion.end, Failed)
    assert (completion.end.cause, completion.end.reason) == (Cause.SANDBOX, "no_launch")


async def test_a_bug_of_ours_is_blamed_on_us_with_its_traceback(tmp_path: Path) -> None:
    def stumble(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        raise ZeroDivisionError("oops")

    completion = await Attempt(make_experiment(), tmp_path, {"agent": stumble}).carry_out()

    assert isinstance(completion.end, Failed)
    assert completion.end.cause is Cause.RUNNER
    assert completion.timing.traceback is not None
    assert "ZeroDivisionError: oops" in completion.timing.traceback


async def test_secrets_reach_the_agent_and_nothing_that_is_kept(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"

    def leak(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        assert phase.env["API_KEY"] == secret
        (folders.logs / "agent.stdout").write_text(f"key is {secret}, again {secret}\n")
        (folders.out / "result.json").write_text(json.dumps({"answer": secret}))
        (folders.state / "events.jsonl").write_text(json.dumps({"key": secret}) + "\n")
        return PhaseEnd(exit_status=0)

    def grade(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        assert secret not in repr(dict(phase.env))
        text = json.dumps({"verdict": "pass", "ext": {"seen": secret}})
        return scores(text)(phase, folders)

    variant = make_variant(agent=make_agent(secrets=("API_KEY",)))
    run = Attempt(
        make_experiment(variants=(variant,)),
        tmp_path,
        {"agent": leak, "grader": grade},
        secrets={"API_KEY": secret, "OTHER": "not-declared"},
    )
    completion = await run.carry_out()

    kept = [path.read_bytes() for path in run.folders.root.rglob("*") if path.is_file()]
    assert not [data for data in kept if secret.encode() in data]
    assert secret not in repr(completion)
    assert completion.timing.masked_secrets == 5
    assert "[masked:API_KEY]" in (run.folders.logs / "agent.stdout").read_text()
    assert "OTHER" not in run.phases[0].env


async def test_only_results_are_named_in_files_and_logs_stand_apart(tmp_path: Path) -> None:
    def work(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        (folders.logs / "agent.stdout").write_text("hello\n")
        (folders.logs / "agent.stderr").write_text("")
        (folders.workspace / "answer.txt").write_text("42")
        return PhaseEnd(exit_status=0)

    run = Attempt(make_experiment(), tmp_path, {"agent": work, "grader": PASS})
    completion = await run.carry_out()

    assert [file.path for file in completion.files] == ["out/benchmark_score.json"]
    assert [file.path for file in completion.timing.logs] == ["logs/agent.stdout"]
    assert sorted(path.name for path in run.folders.root.iterdir()) == [
        "in",
        "logs",
        "out",
        "state",
        "workspace",
    ]


async def test_an_agents_result_is_checked_and_flagged_when_wrong(tmp_path: Path) -> None:
    def work(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        (folders.out / "result.json").write_text('{"outcome": "won"}')
        return PhaseEnd(exit_status=0)

    completion = await Attempt(make_experiment(), tmp_path, {"agent": work, "grader": PASS}).carry_out()

    assert isinstance(completion.end, Graded)
    assert completion.end.flags == ("invalid_result",)


async def test_rights_taken_away_by_an_agent_are_taken_back(tmp_path: Path) -> None:
    def lock_up(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        (folders.out / "result.json").write_text("{}")
        (folders.out / "result.json").chmod(0)
        folders.out.chmod(0)
        return PhaseEnd(exit_status=0)

    def grade(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        folders.out.chmod(0o700)
        end = PASS(phase, folders)
        (folders.out / "benchmark_score.json").chmod(0)
        folders.out.chmod(0)
        return end

    completion = await Attempt(make_experiment(), tmp_path, {"agent": lock_up, "grader": grade}).carry_out()

    assert isinstance(completion.end, Graded), completion.end


async def test_the_workspace_is_laid_out_before_the_agent_starts(tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    (seed / "pkg").mkdir(parents=True)
    (seed / "pkg" / "a.py").write_text("a = 1\n")
    task = make_task(
        workspace=Folder(path=str(seed), digest="sha256:0"),
        files=(WorkspaceFile(path="pkg/b.py", content="b = 2\n", source=None),),
        prompt="do it",
    )
    found: dict[str, str] = {}

    def look(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        for path in [*folders.workspace.rglob("*.py"), folders.inputs / "prompt.txt"]:
            found[path.name] = path.read_text()
        return PhaseEnd(exit_status=0)

    await Attempt(
        make_experiment(tasks=(task,)), tmp_path / "trials", {"agent": look, "grader": PASS}
    ).carry_out()

    assert found == {"a.py": "a = 1\n", "b.py": "b = 2\n", "prompt.txt": "do it"}


async def test_what_a_cut_off_try_left_is_set_aside_as_evidence(tmp_path: Path) -> None:
    run = Attempt(make_experiment(), tmp_path, {"grader": PASS})
    run.folders.root.mkdir(parents=True)
    (run.folders.root / "evidence").write_text("first try")

    await run.carry_out()
    await run.carry_out()

    trial = run.folders.root.parent
    assert (trial / "1.cut-1" / "evidence").read_text() == "first try"
    assert sorted(path.name for path in trial.iterdir()) == ["1", "1.cut-1", "1.cut-2"]


@pytest.mark.parametrize("keep", ["always", "failed", "never"])
async def test_a_workspace_leaves_its_digest_whether_it_is_kept_or_not(tmp_path: Path, keep: str) -> None:
    def work(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        (folders.workspace / "answer.txt").write_text("42")
        return PhaseEnd(exit_status=0)

    policy = make_policy(keep=KeepPolicy(workspace=keep, logs="always"))  # type: ignore[arg-type]  # a parameter
    run = Attempt(make_experiment(policy=policy), tmp_path, {"agent": work, "grader": PASS})

    completion = await run.carry_out()

    digest = digest_folder(run.folders.workspace, everything=True)
    assert completion.timing.workspace_digest == digest
    # Only what is kept was synced: nobody is to be held to the rest.
    assert completion.timing.folders == ({"workspace": digest} if keep == "always" else {})


async def test_a_workspace_that_nobody_can_hand_on_is_graded_all_the_same(tmp_path: Path) -> None:
    def work(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        os.mkfifo(folders.workspace / "pipe")
        (folders.workspace / "loop").symlink_to("loop")
        return PhaseEnd(exit_status=0)

    completion = await Attempt(make_experiment(), tmp_path, {"agent": work, "grader": PASS}).carry_out()

    assert isinstance(completion.end, Graded)
    assert completion.timing.workspace_digest is not None


async def test_a_workspace_deeper_than_calls_go_is_graded_all_the_same(tmp_path: Path) -> None:
    def work(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        deepest = str(folders.workspace)
        for _ in range(1200):
            deepest += "/d"
            os.mkdir(deepest)
        return PhaseEnd(exit_status=0)

    run = Attempt(make_experiment(), tmp_path, {"agent": work, "grader": PASS})
    completion = await run.carry_out()
    remove_tree(run.folders.workspace)

    assert isinstance(completion.end, Graded)


@pytest.mark.parametrize("mode", [0, 0o500, 0o300])
async def test_the_grader_may_write_where_the_agent_took_the_rights_away(tmp_path: Path, mode: int) -> None:
    found: list[int] = []

    def lock_up(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        for folder in (folders.out, folders.workspace, folders.state):
            folder.chmod(mode)
        return PhaseEnd(exit_status=0)

    def grade(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        found.extend(
            folder.stat().st_mode & 0o700 for folder in (folders.out, folders.workspace, folders.state)
        )
        return PASS(phase, folders)

    await Attempt(make_experiment(), tmp_path, {"agent": lock_up, "grader": grade}).carry_out()

    assert found == [0o700, 0o700, 0o700]
