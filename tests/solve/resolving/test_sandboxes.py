import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from labrunner.errors import InputError, InputErrors
from labrunner.solve.authoring.command import command_scorer, command_solver
from labrunner.solve.authoring.scorer import scorer
from labrunner.solve.authoring.solver import Generate, solver
from labrunner.solve.library.scorers import includes
from labrunner.solve.library.solvers import generate, use_tools
from labrunner.solve.library.tools import bash, python
from labrunner.solve.models.asking import mock_model
from labrunner.solve.models.environment import sandbox
from labrunner.solve.resolving.sandboxes import DEFAULT_IMAGE, find_surroundings
from labrunner.solve.values.messages import ModelOutput
from labrunner.solve.values.sample import Sample, Target
from labrunner.solve.values.score import Score
from labrunner.solve.values.state import TaskState
from tests.kit.sandbox.kinds import KINDS
from tests.kit.solve.authoring import in_sandbox, make_task, retry, run, samples, write_task


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def sandbox_section(*given: Any) -> Any:
    return find_surroundings(*given).sandbox


def outcome(tmp_path: Path, kind: str, work: object, *, files: dict[str, str] | None = None) -> str:
    """What a solver found in a sandbox."""
    task = make_task([Sample(input="x", files=files)], solver=in_sandbox(work), sandbox=kind)
    log = run(task, tmp_path, None)
    assert log.status == "success", log.samples[0].error
    score = log.samples[0].score
    assert score is not None
    return str(score.answer)


def test_commands_run_in_the_workspace_with_the_samples_files(tmp_path: Path, kind: str) -> None:
    async def work() -> str:
        result = await sandbox().exec(["sh", "-c", "cat sub/a.txt; echo wrong >&2; exit 3"])
        return f"{result.stdout} {result.stderr.strip()} {result.returncode} {result.success}"

    assert outcome(tmp_path, kind, work, files={"sub/a.txt": "content"}) == "content wrong 3 False"


def test_input_folder_and_variables_of_a_command(tmp_path: Path, kind: str) -> None:
    async def work() -> str:
        await sandbox().exec(["mkdir", "deep"])
        result = await sandbox().exec(
            ["sh", "-c", "cat; echo $WORD; basename $PWD"], input="in ", cwd="deep", env={"WORD": "w"}
        )
        missing = await sandbox().exec(["true"], cwd="nowhere")
        return f"{result.stdout.split()} {missing.returncode}"

    assert outcome(tmp_path, kind, work) == "['in', 'w', 'deep'] 1"


def test_home_is_the_same_in_all_calls_and_files_stay(tmp_path: Path, kind: str) -> None:
    async def work() -> str:
        await sandbox().exec(["sh", "-c", "echo one > $HOME/x; echo two > $TMPDIR/y; echo three > z"])
        return (await sandbox().exec(["sh", "-c", "cat $HOME/x $TMPDIR/y z"])).stdout.replace("\n", " ")

    assert outcome(tmp_path, kind, work) == "one two three"


def test_a_time_limit_ends_the_whole_tree(tmp_path: Path, kind: str) -> None:
    async def work() -> str:
        started = time.monotonic()
        script = "echo begun; (setsid sh -c 'sleep 2; touch late') & sleep 60"
        told = ""
        try:
            await sandbox().exec(["sh", "-c", script], timeout=0.5)
        except TimeoutError as error:
            told = str(error)
        took = time.monotonic() - started
        await asyncio.sleep(2.2)
        listing = await sandbox().exec(["ls"])
        return f"{'begun' in told} {took < 20} {'late' in listing.stdout}"

    assert outcome(tmp_path, kind, work) == "True True False"


def test_files_are_written_and_read_as_text_and_bytes(tmp_path: Path, kind: str) -> None:
    async def work() -> str:
        box = sandbox()
        await box.write_file("new/folder/file.txt", "text é")
        await box.write_file("data.bin", b"\x00\xff")
        text = await box.read_file("new/folder/file.txt")
        data = await box.read_file("data.bin", text=False)
        errors = []
        for path in ("nothing", "new"):
            try:
                await box.read_file(path)
            except (FileNotFoundError, IsADirectoryError) as error:
                errors.append(type(error).__name__)
        try:
            await box.read_file("data.bin")
        except UnicodeDecodeError:
            errors.append("not text")
        return f"{text} {data!r} {errors}"

    expected = "text é b'\\x00\\xff' ['FileNotFoundError', 'IsADirectoryError', 'not text']"
    assert outcome(tmp_path, kind, work) == expected


def test_long_output_loses_its_middle(tmp_path: Path, kind: str) -> None:
    async def work() -> str:
        result = await sandbox().exec(["sh", "-c", "head -c 11000000 /dev/zero | tr '\\0' x; echo end"])
        return f"{len(result.stdout) < 10_600_000} {'left out here' in result.stdout} {result.stdout[-4:-1]}"

    assert outcome(tmp_path, kind, work) == "True True end"


def test_tools_use_the_sandbox_and_the_model_sees_what_they_say(tmp_path: Path, kind: str) -> None:
    def answer(request: object) -> ModelOutput:
        messages = request.messages  # type: ignore[attr-defined] # a Request
        said = [message for message in messages if message.role == "tool"]
        match len(said):
            case 0:
                return ModelOutput.for_tool_call("m", "bash", {"cmd": "cat flag.txt; sleep 60 & sleep 61"})
            case 1:
                assert said[0].error.type == "timeout"
                return ModelOutput.for_tool_call("m", "bash", {"cmd": "cat flag.txt"})
            case 2:
                return ModelOutput.for_tool_call(
                    "m", "python", {"code": "print(open('flag.txt').read()[::-1])"}
                )
            case _:
                return ModelOutput.from_content("m", f"{said[1].content} {said[2].content.strip()}")

    task = make_task(
        [Sample(input="find it", target="flag{x} }x{galf", files={"flag.txt": "flag{x}"})],
        solver=[use_tools([bash(timeout=1), python(timeout=30)]), generate()],
        sandbox=kind,
    )
    log = run(task, tmp_path, mock_model(answer))
    assert log.results.metrics["accuracy"].value == 1.0
    kinds = [event["event"] for event in log.samples[0].events]
    assert kinds.count("tool") == 3
    assert kinds.count("sandbox") == 3


def test_scorers_work_in_the_same_sandbox_behind_the_barrier(tmp_path: Path, kind: str) -> None:
    @scorer()
    def looks() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            result = await sandbox().exec(["cat", "made.txt"])
            return Score(result.stdout.strip() == target.text, result.stdout.strip())

        return score

    async def work() -> str:
        await sandbox().exec(["sh", "-c", "echo yes > made.txt"])
        return "done"

    task = make_task(samples("x", target="yes"), solver=in_sandbox(work), scorer=looks(), sandbox=kind)
    assert run(task, tmp_path, None).results.metrics["accuracy"].value == 1.0


def test_what_a_solver_left_running_is_gone_when_scorers_begin(tmp_path: Path, kind: str) -> None:
    @scorer()
    def waits() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            await asyncio.sleep(1.5)
            listing = await sandbox().exec(["ls"])
            return Score("late" not in listing.stdout)

        return score

    @solver
    def leaving() -> object:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            box = sandbox()
            script = ["sh", "-c", "sleep 1; touch late"]
            state.store["left"] = asyncio.ensure_future(box.exec(script))
            await asyncio.sleep(0.3)
            return state

        return solve

    task = make_task(samples("x"), solver=leaving(), scorer=waits(), sandbox=kind)
    assert run(task, tmp_path, None).results.metrics["accuracy"].value == 1.0


def test_a_samples_setup_runs_before_the_first_step(tmp_path: Path, kind: str) -> None:
    async def work() -> str:
        return (await sandbox().exec(["cat", "prepared", "own"])).stdout.replace("\n", " ")

    task = make_task(
        [
            Sample(input="x", target="task", setup="echo task > prepared; echo $$ > own"),
            Sample(input="y", target="whole", setup="echo whole > prepared; touch own"),
        ],
        solver=in_sandbox(work),
        sandbox=kind,
    )
    assert run(task, tmp_path, None).results.metrics["accuracy"].value == 1.0


def test_a_setup_that_fails_is_an_error_of_the_setup(tmp_path: Path, kind: str) -> None:
    task = make_task([Sample(input="x", setup="exit 3")], sandbox=kind, fail_on_error=False)
    error = run(task, tmp_path).samples[0].error
    assert error is not None
    assert (error.cause, error.reason) == ("setup", "setup_exit")


def test_a_task_without_a_sandbox_says_so(tmp_path: Path) -> None:
    async def work() -> str:
        return (await sandbox().exec(["true"])).stdout

    log = run(make_task(samples("x"), solver=in_sandbox(work), fail_on_error=False), tmp_path, None)
    assert "this task has no sandbox" in str(log.samples[0].error)


def test_code_that_outlives_its_attempt_has_no_sandbox(tmp_path: Path, kind: str) -> None:
    kept = []

    async def work() -> str:
        kept.append(sandbox())
        return "x"

    outcome(tmp_path, kind, work)
    with pytest.raises(Exception, match=r"closed|loop"):
        asyncio.run(asyncio.wait_for(kept[0].exec(["true"]), 5))


GRADER = """
import json, os, pathlib
answer = pathlib.Path("answer.txt")
wanted = json.load(open(os.environ["AGENTLAB_TARGET_PATH"]))
is_right = answer.exists() and answer.read_text().strip() == wanted
json.dump({"score": float(is_right)}, open(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"], "w"))
"""


def write_grader(folder: Path) -> str:
    (folder / "grader").mkdir()
    (folder / "grader/grade.py").write_text(GRADER)
    return str(folder / "grader")


def test_a_command_scores_what_a_solver_left(tmp_path: Path, kind: str) -> None:
    async def work() -> str:
        found = await sandbox().exec(["sh", "-c", "ls /agentlab/grader $AGENTLAB_GRADER_DIR 2>/dev/null"])
        await sandbox().write_file("answer.txt", "42")
        return f"saw: {found.stdout}"

    grading = command_scorer(["$python", "$grader_dir/grade.py"], dir=write_grader(tmp_path))
    task = make_task(samples("x", target="42"), solver=in_sandbox(work), scorer=grading, sandbox=kind)
    log = run(task, tmp_path, None)
    assert log.results.metrics["accuracy"].value == 1.0
    assert "grade.py" not in str(log.samples[0].output.completion)


def test_a_command_solves_and_scorers_in_python_judge(tmp_path: Path, kind: str) -> None:
    @scorer()
    def looks() -> object:
        async def score(state: TaskState, target: Target) -> Score:
            return Score((await sandbox().read_file("answer.txt")).strip() == target.text)

        return score

    agent = command_solver("cat > /dev/null; echo $$AGENTLAB_TASK_ID > answer.txt", stdin="prompt")
    task = make_task(samples("x", target="1"), solver=agent, scorer=looks(), sandbox=kind)
    log = run(task, tmp_path, None)
    assert log.results.metrics["accuracy"].value == 1.0


def test_a_command_agents_end_is_judged_by_the_usual_rules(tmp_path: Path, kind: str) -> None:
    def ended(script: str, **fields: object) -> object:
        agent = command_solver(script, **fields)
        task = make_task(samples("x"), solver=agent, scorer=includes(), sandbox=kind, fail_on_error=False)
        return run(task, tmp_path, None).samples[0]

    failed = ended("exit 75")
    assert failed.error.cause == "provider"  # type: ignore[attr-defined] # an EvalSample
    slow = ended("sleep 60", timeout_s=0.5)
    assert slow.limit.type == "timeout"  # type: ignore[attr-defined]
    assert slow.error is None  # type: ignore[attr-defined]


def test_command_and_command_are_exactly_an_experiment_file(tmp_path: Path, kind: str) -> None:
    body = f"""
@task
def commands():
    return Task(
        dataset=[Sample(input="x", target="42")],
        solver=command_agent,
        scorer=command_grader,
        sandbox={kind!r},
    )
"""
    head = (
        "from labrunner.solver import command as agent\nfrom labrunner.scorer import command as grader\n"
        "command_agent = agent('echo 42 > answer.txt')\n"
        f"command_grader = grader(['$python', '$grader_dir/grade.py'], dir={write_grader(tmp_path)!r})\n"
    )
    (tmp_path / "tasks").mkdir()
    file = write_task(tmp_path / "tasks", head + body)
    log = run(str(file), tmp_path, None)
    assert log.results.metrics["accuracy"].value == 1.0
    assert not list(Path(log.location).rglob("transcript.jsonl"))
    assert retry(log).status == "success"


def test_a_command_among_other_solvers_is_refused(tmp_path: Path) -> None:
    task = make_task(solver=[generate(), command_solver("true")], sandbox="process")
    with pytest.raises(InputError, match="can't stand among other solvers"):
        run(task, tmp_path)


def test_a_command_needs_a_sandbox(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a command needs a sandbox"):
        run(make_task(solver=command_solver("true")), tmp_path)


def test_wrong_fields_of_a_command_are_told_like_those_of_a_file(tmp_path: Path) -> None:
    task = make_task(solver=command_solver("true", timeout=3), sandbox="process")
    with pytest.raises((InputError, InputErrors), match=r"agent\.timeout"):
        run(task, tmp_path)


def test_docker_takes_the_dockerfile_beside_the_task_else_the_default_image(tmp_path: Path) -> None:
    assert sandbox_section(None, "docker", tmp_path) == {"kind": "docker", "image": DEFAULT_IMAGE}
    assert sandbox_section(None, ("docker", "my/image:1"), tmp_path)["image"] == "my/image:1"
    (tmp_path / "Dockerfile").touch()
    assert sandbox_section(None, "docker", tmp_path) == {"kind": "docker", "build": str(tmp_path)}


def test_sandboxes_by_other_names_and_fields(tmp_path: Path) -> None:
    assert sandbox_section(None, "local", tmp_path) == {"kind": "process"}
    assert sandbox_section("bubblewrap", "docker", tmp_path) == {"kind": "bubblewrap"}
    given = {"kind": "bubblewrap", "memory_mb": 512}
    assert sandbox_section("process", given, tmp_path) == {"kind": "process", "memory_mb": 512}
    with pytest.raises(InputError, match="takes no file or image"):
        sandbox_section(None, ("bubblewrap", "image"), tmp_path)
