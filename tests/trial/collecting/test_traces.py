import os
from collections.abc import Callable
from pathlib import Path

import pytest

from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.trial.collecting import traces
from tests.kit.builders import make_experiment, make_sandbox, make_task, make_variant
from tests.kit.trial.attempting import Attempt, ok, scores

FAIL = scores('{"verdict": "fail"}')
Act = Callable[[AttemptFolders], object]


def await_clock(folders: AttemptFolders) -> None:
    """Go on when the file system's clock has moved: real agents take longer than that to start."""
    probe, began = folders.scratch / "probe", (folders.inputs / "policy.json").stat().st_mtime_ns
    while True:
        probe.write_text("")
        if probe.stat().st_mtime_ns > began:
            return


async def left_nothing(root: Path, act: Act = lambda folders: None, **plan: object) -> bool:
    def agent(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        await_clock(folders)
        act(folders)
        return PhaseEnd(exit_status=41)

    task = make_task(files=())
    variant = make_variant(sandbox=make_sandbox(**plan))
    experiment = make_experiment(tasks=(task,), variants=(variant,))
    completion = await Attempt(experiment, root, {"agent": agent, "grader": FAIL}).carry_out()
    return completion.timing.left_nothing


async def test_an_agent_that_does_nothing_leaves_nothing(tmp_path: Path) -> None:
    assert await left_nothing(tmp_path)


@pytest.mark.parametrize(
    "act",
    [
        lambda folders: (folders.workspace / "new.txt").write_text("x"),
        lambda folders: (folders.workspace / "deep" / "down").mkdir(parents=True),
        lambda folders: (folders.out / "notes.txt").write_text("x"),
        lambda folders: (folders.state / "events.jsonl").write_text("{}\n"),
        lambda folders: (folders.workspace / "link").symlink_to("/nowhere"),
        lambda folders: folders.workspace.rename(folders.root / "elsewhere"),
    ],
)
async def test_any_trace_is_seen(tmp_path: Path, act: Act) -> None:
    assert not await left_nothing(tmp_path, act)


async def test_a_change_of_owner_or_rights_is_no_trace(tmp_path: Path) -> None:
    assert await left_nothing(tmp_path, lambda folders: folders.workspace.chmod(0o755))


async def test_nobody_knows_what_an_agent_did_that_worked_elsewhere(tmp_path: Path) -> None:
    assert not await left_nothing(tmp_path, workdir="/testbed")


def test_a_workspace_that_is_too_large_to_look_at_is_not_judged(tmp_path: Path) -> None:
    folders = AttemptFolders(root=tmp_path)
    for folder in folders.all():
        folder.mkdir()
    for number in range(5):
        (folders.workspace / f"{number}").write_text("")
    (folders.inputs / "policy.json").write_text("{}")
    for path in (folders.workspace, *folders.workspace.iterdir()):
        os.utime(path, (1, 1))
    assert traces.is_untouched(folders)
    assert not traces.is_untouched(folders, most=3)


async def test_an_agent_that_says_error_is_heard(tmp_path: Path) -> None:
    def agent(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        env = phase.env
        ids = ", ".join(
            f'"{name}": "{env[f"AGENTLAB_{name.upper()}"]}"'
            for name in ("run_id", "trial_id", "variant_id", "task_id")
        )
        (folders.out / "result.json").write_text(
            f'{{"schema_version": "agent_result_v1", "ids": {{{ids}, "repl_idx": 0}}, "outcome": "error", '
            '"error": {"error_type": "auth", "message": "no key"}}'
        )
        return ok(phase, folders)

    completion = await Attempt(make_experiment(), tmp_path, {"agent": agent, "grader": FAIL}).carry_out()
    assert completion.timing.agent_outcome == "error"
    assert completion.timing.agent_error == "auth: no key"
