"""`lab shell`: a throw-away sandbox, with a real terminal or one command, that leaves nothing behind."""

import signal
from pathlib import Path

import pytest

from labrunner.files.scraps import SHELL
from tests.kit.cli.calling import AGENT_SHOUTS, lab, squeeze, write_experiment
from tests.kit.cli.typist import at_terminal, is_running
from tests.kit.waiting import wait_for

SETUP = 'setup: {command: "echo prepared > ready.txt"}\n'


def run_in(folder: Path, sandbox: str) -> Path:
    """Run a small experiment; the first of its two trials fails, and is kept."""
    write_experiment(folder, sandbox=sandbox, tasks=2, agent=AGENT_SHOUTS, extra=SETUP)
    run = lab("run", cwd=folder)
    assert run.code == 0, run.err
    return folder


@pytest.fixture(scope="module", params=["process", pytest.param("bubblewrap", marks=pytest.mark.bwrap)])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, in each kind of sandbox without a daemon."""
    return run_in(tmp_path_factory.mktemp("shell") / "e", request.param)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, where the kind does not matter."""
    return run_in(tmp_path_factory.mktemp("bare") / "e", "process")


def find_trial(folder: Path, verdict: str) -> str:
    told = lab(
        "query", "last", f"SELECT trial_id FROM trials WHERE verdict = '{verdict}'", "--json", cwd=folder
    )
    trial: str = told.json()[0]["trial_id"]
    return trial


def find_scraps(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(f"{SHELL}*") if path.is_dir()]


def read_run(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (folder / ".lab").rglob("*") if path.is_file()}


def test_a_trial_is_seen_as_its_grader_found_it_and_is_not_changed(ran: Path) -> None:
    trial, before = find_trial(ran, "fail"), read_run(ran)
    look = "cat answer.txt ready.txt; ls $AGENTLAB_GRADER_DIR; [ -e $AGENTLAB_BENCHMARK_SCORE_PATH ]"
    seen = lab("shell", "last", trial, "--", "sh", "-c", f"{look} || echo no score; rm -r *; exit 3", cwd=ran)
    assert seen.code == 3, seen.err
    assert "prepared" in seen.out
    assert "grade.py" in seen.out
    assert "target.json" in seen.out
    assert "no score" in seen.out
    assert read_run(ran) == before
    assert find_scraps(ran) == []
    graded = lab("shell", "last", trial, "--", "sh", "-c", "echo $AGENTLAB_AGENT_EXIT_STATUS", cwd=ran)
    assert graded.out == "0\n"


def test_an_agent_sees_nothing_of_the_grader(ran: Path) -> None:
    hidden = "$(dirname $AGENTLAB_TASK_PATH)/../grader"
    look = f"cat ready.txt; ls $AGENTLAB_AGENT_DIR; ls {hidden}; echo $AGENTLAB_TARGET_PATH"
    seen = lab("shell", "experiment.yaml", "t1", "--", "sh", "-c", look, cwd=ran)
    assert seen.code == 0, seen.err
    assert seen.out == "prepared\nagent.py\n\n"
    assert find_scraps(ran) == []
    grading = lab(
        "shell", ".", "t1", "--as", "grader", "--", "sh", "-c", "cat $AGENTLAB_TARGET_PATH", cwd=ran
    )
    assert grading.out.strip().startswith('"')


def test_a_terminal_has_the_windows_size_and_hands_every_key_on(ran: Path) -> None:
    with at_terminal("shell", "last", find_trial(ran, "fail"), cwd=ran) as typist:
        typist.see("removes everything")
        typist.type("stty size; tty\n")
        typist.see("31 97")
        typist.see("/dev/pts/")
        typist.resize(20, 70)
        typist.type("sleep 0.2; stty size\n")
        typist.see("20 70")
        typist.type("sleep 86313\n")
        wait_for(lambda: is_running("86313"))
        typist.type("\x03")
        typist.type("echo status $?\n")
        typist.see("status 130")
        typist.type("exit 5\n")
        assert typist.end() == 5
    assert find_scraps(ran) == []


def test_a_shell_that_is_told_to_end_removes_everything(ran: Path) -> None:
    with at_terminal("shell", "experiment.yaml", "t0", cwd=ran) as typist:
        typist.see("removes everything")
        typist.type("sleep 86311\n")
        wait_for(lambda: is_running("86311"))
        typist.kill(signal.SIGTERM)
        typist.end()
    assert not is_running("86311")
    assert find_scraps(ran) == []


def test_a_killed_shell_leaves_a_folder_that_the_next_one_removes(ran: Path) -> None:
    with at_terminal("shell", "experiment.yaml", "t0", cwd=ran) as typist:
        typist.see("removes everything")
        typist.type("sleep 86312\n")
        wait_for(lambda: is_running("86312"))
        typist.kill()
        assert typist.end() == -signal.SIGKILL
    wait_for(lambda: not is_running("86312"))
    [left] = find_scraps(ran)
    listed = lab("clean", "--list", "--json", cwd=ran)
    assert str(left) in listed.out
    assert lab("shell", "experiment.yaml", "t0", "--", "true", cwd=ran).code == 0
    assert find_scraps(ran) == []


def test_a_workspace_that_was_not_kept_is_told_with_what_keeps_it(bare: Path) -> None:
    told = lab("shell", "last", find_trial(bare, "pass"), "--", "true", cwd=bare)
    assert told.code == 2
    assert (
        "its workspace was not kept (keep.workspace is failed, and a run can be told --keep-workspace always)"
        in told.err
    )
    assert f"the task as it begins: lab shell {bare / 'experiment.yaml'} t" in told.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nosuch", "t0"), "RUN: "),
        (("last", "nosuch"), "TRIAL: no finished trial of this run has 'nosuch' in its name"),
        (("last", "0", "--attempt", "7"), "--attempt: nothing is left of attempt 7"),
        (("last", "0", "--variant", "x"), "--variant: is for tasks of an experiment"),
        (("last", "0", "--as", "root"), "--as: must be agent or grader, found 'root'"),
        (("experiment.yaml", "t9"), "TASK: there is no task 't9'; nearest: t"),
        (("experiment.yaml", "t0", "--variant", "x"), "--variant: there is no variant 'x'; known: baseline"),
        (("experiment.yaml", "t0", "--attempt", "1"), "--attempt: is for trials of a run"),
        (("some.py", "t0"), "is a task written in Python"),
        (("harbor:nowhere", "t0"), "harbor:nowhere"),
    ],
)
def test_what_can_not_be_looked_at_is_refused(bare: Path, words: tuple[str, ...], told: str) -> None:
    answer = lab("shell", *words, "--", "true", cwd=bare)
    assert answer.code == 2, answer.err
    assert told in answer.err
    assert find_scraps(bare) == []


def test_no_agent_is_needed_to_look_at_a_task(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    lines = (folder / "experiment.yaml").read_text().splitlines(keepends=True)
    (folder / "experiment.yaml").write_text("".join(each for each in lines if not each.startswith("agent:")))
    assert "agent.command: is missing" in lab("run", cwd=folder).err
    seen = lab("shell", "experiment.yaml", "t0", "--", "sh", "-c", "cat $AGENTLAB_PROMPT_PATH", cwd=folder)
    assert (seen.code, seen.out.strip()) == (0, "word 0"), seen.err
    checked = lab("doctor", cwd=folder)
    assert checked.code == 0, checked.out + checked.err
    assert "none is named, so nothing was tried with one; a run takes --agent NAME" in squeeze(checked.out)


def test_without_a_terminal_a_command_is_needed(bare: Path) -> None:
    answer = lab("shell", "experiment.yaml", "t0", cwd=bare)
    assert answer.code == 2
    assert "standard input: is no terminal; give a command to run instead" in answer.err


def test_a_setup_that_fails_is_told(tmp_path: Path) -> None:
    folder = write_experiment(
        tmp_path / "e", tasks=1, extra='setup: {command: "echo no such mirror >&2; exit 4"}\n'
    )
    answer = lab("shell", "experiment.yaml", "t0", "--", "true", cwd=folder)
    assert answer.code != 0
    assert "the setup of task t0 ended with 4: no such mirror" in answer.err
    assert find_scraps(folder) == []


def test_a_setup_that_put_a_pipe_in_place_of_its_log_is_not_waited_for(tmp_path: Path) -> None:
    command = "cd ../logs && rm setup.stderr && mkfifo setup.stderr && exit 4"
    folder = write_experiment(
        tmp_path / "e", tasks=1, sandbox="process", extra=f'setup: {{command: "{command}"}}\n'
    )
    answer = lab("shell", "experiment.yaml", "t0", "--", "true", cwd=folder)
    assert "the setup of task t0 ended with 4: " in answer.err
    assert find_scraps(folder) == []


def test_secrets_are_those_that_have_a_value_here(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    text = (folder / "experiment.yaml").read_text().replace("agent: {", "agent: {secrets: [GIVEN, LACKING], ")
    (folder / "experiment.yaml").write_text(text)
    look = ("--", "sh", "-c", 'echo "$GIVEN-$LACKING-"')
    answer = lab("shell", "experiment.yaml", "t0", *look, cwd=folder, env={"GIVEN": "some-value"})
    assert answer.out == "some-value--\n"
    assert "without a value here: LACKING" in answer.err


def test_a_grader_that_changed_since_is_told(bare: Path) -> None:
    file = bare / "grader" / "grade.py"
    text = file.read_text()
    try:
        file.write_text(f"{text}# mended\n")
        answer = lab("shell", "last", "0", "--", "true", cwd=bare)
    finally:
        file.write_text(text)
    assert answer.code == 0, answer.err
    assert f"{bare / 'grader'} is not what it was when the run was made" in answer.err
