import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.kit.cli.calling import AGENT_SHOUTS, LAB, environment, lab, write_experiment
from tests.kit.runner.running import committed_bytes
from tests.kit.sandbox.kinds import KINDS
from tests.kit.waiting import wait_for


@pytest.mark.parametrize("kind", KINDS)
def test_an_experiment_file_becomes_a_graded_committed_summarised_run(tmp_path: Path, kind: str) -> None:
    write_experiment(tmp_path, sandbox=kind, extra="replications: 2\n")

    run = lab("run", "--run-id", "first", cwd=tmp_path)

    assert run.code == 0, run.err
    assert "success: all 6 trials finished" in run.out
    shown = lab("show", "last", "--json", cwd=tmp_path).json()
    assert shown["summary"]["totals"] == {"trials": 6, "pass": 4, "fail": 2, "missing": 0, "error": 0}
    verified = lab("verify", "first", "--json", cwd=tmp_path).json()
    assert (verified["is_sound"], verified["is_complete"]) == (True, True)
    assert verified["chain"] in run.out


@pytest.mark.bwrap
def test_a_real_run_has_the_same_bytes_at_concurrency_1_and_32(tmp_path: Path) -> None:
    write_experiment(tmp_path, sandbox="bubblewrap", tasks=8, extra="replications: 2\n")

    roots = []
    for concurrency in ("1", "32"):
        log_dir = tmp_path / f"at-{concurrency}"
        words = ("run", "--run-id", "same", "--log-dir", log_dir, "--max-concurrency", concurrency)
        assert lab(*words, cwd=tmp_path).code == 0
        roots.append(log_dir / "same")

    assert committed_bytes(roots[0]) == committed_bytes(roots[1])


def test_nothing_but_results_goes_to_standard_output_with_json(tmp_path: Path) -> None:
    write_experiment(tmp_path)

    run = lab("run", "--json", cwd=tmp_path)

    assert run.json()["status"]["status"] == "success"


def test_the_same_run_id_twice_is_refused(tmp_path: Path) -> None:
    write_experiment(tmp_path)
    lab("run", "--run-id", "mine", cwd=tmp_path)

    again = lab("run", "--run-id", "mine", cwd=tmp_path)

    assert again.code == 2
    assert "mine" in again.err
    assert [path.name for path in (tmp_path / ".lab/runs").iterdir()] == ["mine"]


def test_an_option_with_an_optional_value_never_swallows_the_target(tmp_path: Path) -> None:
    write_experiment(tmp_path)

    planned = lab("plan", "--retry-on-error", "experiment.yaml", "--json", cwd=tmp_path)

    assert planned.json()["experiment"]["policy"]["retry_on_error"] == 1


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("--fail-on-error", True),
        ("--no-fail-on-error", False),
        ("--fail-on-error=0.1", 0.1),
        ("--fail-on-error=5", 5),
    ],
)
def test_fail_on_error_in_all_its_forms(tmp_path: Path, word: str, value: object) -> None:
    write_experiment(tmp_path)

    planned = lab("plan", word, "--json", cwd=tmp_path).json()

    assert planned["experiment"]["policy"]["fail_on_error"] == value


def test_options_can_be_set_as_variables(tmp_path: Path) -> None:
    write_experiment(tmp_path)

    planned = lab("plan", "--json", cwd=tmp_path, env={"LAB_MAX_CONCURRENCY": "7", "LAB_LIMIT": "2"}).json()

    assert planned["experiment"]["policy"]["max_concurrency"] == 7
    assert len(planned["tasks"]) == 2


def test_filters_choose_tasks_and_variants(tmp_path: Path) -> None:
    write_experiment(tmp_path, extra="variants: [{id: a}, {id: b}]\n")

    words = ("plan", "--task-id", "t1", "--task-id", "t2", "--variant", "b", "--epochs", "4", "--json")
    planned = lab(*words, cwd=tmp_path).json()

    assert [(slot["task_id"], slot["variant_id"]) for slot in planned["schedule"][:2]] == [
        ("t1", "b"),
        ("t2", "b"),
    ]
    assert len(planned["schedule"]) == 8


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "nowhere.yaml"), "nowhere.yaml"),
        (("run", "--sandbox", "moon"), "moon"),
        (("run", "--set", "agent.timeout_s"), "expected NAME=VALUE"),
        (("run", "--set", "agent.tiemout_s=3"), "tiemout_s"),
        (("run", "--fail-on-error=often"), "fail_on_error"),
        (("run", "--retry-on-error=x"), "expected a whole number from 0 on"),
        (("run", "--fail-on-error", "0.1"), "take a value only with `=`: --fail-on-error=0.1"),
        (("run", "--log-dir", "experiment.yaml"), "experiment.yaml is a file, so no run can lie in it"),
        (("run", "--task-id", "zzz"), "zzz"),
        (("run", "--variant", "zzz"), "zzz"),
        (("run", "--env", "NOVALUE"), "expected NAME=VALUE"),
        (("run", "--env-file", "absent.env"), "absent.env"),
        (("run", "--run-id", "../evil"), "run"),
        (("run", "--nonsense"), "--nonsense"),
        (("rnu",), "did you mean `lab run`"),
        (("show", "zzz"), "zzz"),
        (("verify", "zzz"), "zzz"),
        (("log", "list", "--status", "odd"), "odd"),
        (("clean", "--older-than", "soon"), "soon"),
        (("init", "--template", "zzz"), "zzz"),
    ],
)
def test_wrong_use_is_told_with_exit_code_2_and_nothing_is_written(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    write_experiment(tmp_path)

    answer = lab(*words, cwd=tmp_path)

    assert answer.code == 2, answer
    assert told in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / ".lab").exists()


def test_a_missing_secret_is_named_before_anything_is_spent(tmp_path: Path) -> None:
    write_experiment(tmp_path, extra="")
    words = ("run", "--set", "agent.secrets=[SHOUT_KEY]")

    refused = lab(*words, cwd=tmp_path)
    (tmp_path / "keys.env").write_text('# keys\nexport SHOUT_KEY="abcdefgh1"\n')
    given = lab(*words, "--env-file", "keys.env", cwd=tmp_path)

    assert refused.code == 2
    assert "SHOUT_KEY" in refused.err
    assert given.code == 0
    assert not [p for p in (tmp_path / ".lab").rglob("*") if p.is_file() and b"abcdefgh1" in p.read_bytes()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_in_order(tmp_path: Path, kind: str, number: signal.Signals) -> None:
    agent = 'import os, time\nif os.environ["AGENTLAB_TASK_ID"] == "t2": time.sleep(600)\n' + AGENT_SHOUTS
    write_experiment(tmp_path, sandbox=kind, agent=agent)
    process = subprocess.Popen(
        [LAB, "run", "--run-id", "x", "--grace", "0.2", "--max-concurrency", "2"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    commits = tmp_path / ".lab/runs/x/commits.jsonl"
    wait_for(lambda: commits.exists() and commits.read_bytes().count(b"\n") == 2)

    process.send_signal(number)
    out, _ = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "cancelled" in out
    assert "lab continue" in out
    status = json.loads((tmp_path / ".lab/runs/x/status.json").read_text())
    assert (status["status"], status["counts"]["committed"]) == ("cancelled", 2)
    assert not find_processes(str(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_run_is_open_ends_the_command_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    write_experiment(tmp_path)
    os.mkfifo(tmp_path / "keys.env")
    process = subprocess.Popen([LAB, "run", "--env-file", "keys.env"], cwd=tmp_path, env=environment())
    # It can be opened for writing once the command reads it; the command waits for what never comes.
    with (tmp_path / "keys.env").open("wb"):
        process.send_signal(number)
        assert process.wait(30) == 130
    assert not (tmp_path / ".lab").exists()


def test_a_signal_ends_the_experiments_that_would_follow_too(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_experiment(tmp_path / name, agent="import time; time.sleep(600)")
    words = [LAB, "run", "one/experiment.yaml", "two/experiment.yaml", "--grace", "0"]
    process = subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL)
    wait_for(lambda: bool(list(tmp_path.glob(".lab/runs/*/trials/*/1/workspace"))))

    process.send_signal(signal.SIGTERM)

    assert process.wait(30) == 130
    assert len(list(tmp_path.glob(".lab/runs/*"))) == 1


@pytest.mark.parametrize("command", ["run", "set"])
def test_a_signal_ends_what_would_follow_also_when_trials_in_flight_complete_their_run(
    tmp_path: Path, command: str
) -> None:
    waits = 'import os, pathlib, time\nwhile not pathlib.Path(os.environ["GO"]).exists(): time.sleep(0.01)\n'
    for name in ("one", "two"):
        write_experiment(tmp_path / name, agent=waits + AGENT_SHOUTS, tasks=1, name=name)
    process = subprocess.Popen(
        [LAB, command, "one/experiment.yaml", "two/experiment.yaml", "--env", f"GO={tmp_path / 'go'}"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = process.stderr
    wait_for(lambda: bool(list(tmp_path.glob(".lab/runs/*/trials/*/1/workspace"))))

    process.send_signal(signal.SIGINT)
    wait_for(lambda: "stopping" in said.readline())
    (tmp_path / "go").touch()
    process.communicate(timeout=30)

    assert process.returncode == 130
    (run,) = lab("log", "list", "--json", cwd=tmp_path).json()
    assert (run["name"], run["state"]) == ("one", "success")


def test_a_terminal_that_closes_ends_the_run_in_order(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent="import time; time.sleep(600)")
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(LAB, [LAB, "run", "--run-id", "x", "--grace", "0"], environment())
    wait_for(lambda: b"running" in os.read(screen, 65536))

    os.close(screen)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    status = json.loads((tmp_path / ".lab/runs/x/status.json").read_text())
    assert (status["status"], status["error"]["message"]) == ("cancelled", "stopped by SIGHUP")
    assert not find_processes(str(tmp_path))


def test_under_nohup_a_run_outlives_its_terminal_and_can_be_stopped_at_once(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent="import time; time.sleep(600)")
    words = ["nohup", LAB, "run", "--run-id", "x", "--grace", "600"]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: bool(list(tmp_path.glob(".lab/runs/x/trials/*/1/workspace"))))

    process.send_signal(signal.SIGHUP)
    stopped = lab("stop", "x", "--now", cwd=tmp_path)

    assert stopped.code == 0, stopped.err
    assert process.wait(30) == 130
    status = json.loads((tmp_path / ".lab/runs/x/status.json").read_text())
    # Two signals at once: the system chooses which one it delivers first.
    assert status["error"]["message"] in {"stopped by SIGTERM", "stopped by SIGINT"}


def test_a_report_that_nobody_reads_does_not_change_the_exit_code(tmp_path: Path) -> None:
    write_experiment(tmp_path, agent="raise SystemExit(75)")
    process = subprocess.Popen(
        [LAB, "run"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()

    assert process.wait(60) == 1


def test_commands_that_are_suggested_name_the_run_wherever_it_lies(tmp_path: Path) -> None:
    write_experiment(tmp_path)

    here = lab("run", "--run-id", "x", cwd=tmp_path)
    elsewhere = lab("run", "--run-id", "x", "--log-dir", "logs", cwd=tmp_path)

    assert "lab show x\n" in here.out
    assert "lab show logs/x\n" in elsewhere.out
    assert lab("show", "logs/x", cwd=tmp_path).code == 0


def find_processes(text: str) -> list[str]:
    """Processes whose command line or working folder names a path."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            where = os.readlink(entry / "cwd")
        except OSError:
            continue
        if text in command or where.startswith(text):
            found.append(command)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_kill_9_leaves_no_process_and_a_run_that_says_so(tmp_path: Path, kind: str) -> None:
    agent = 'import os, time\nif os.environ["AGENTLAB_TASK_ID"] == "t1": time.sleep(600)\n' + AGENT_SHOUTS
    write_experiment(tmp_path, sandbox=kind, agent=agent)
    process = subprocess.Popen(
        [LAB, "run", "--run-id", "x", "--max-concurrency", "3"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    root = tmp_path / ".lab/runs/x"
    wait_for(lambda: (root / "commits.jsonl").exists() and (root / "commits.jsonl").stat().st_size > 0)

    process.kill()
    process.wait()

    wait_for(lambda: not find_processes(str(tmp_path)), timeout=10)
    shown = lab("show", "x", cwd=tmp_path)
    assert shown.code == 0
    assert "crashed" in shown.out
    assert lab("verify", "x", cwd=tmp_path).code == 0
    assert [
        run["run_id"] for run in lab("log", "list", "--status", "started", "--json", cwd=tmp_path).json()
    ] == ["x"]


def test_what_can_not_be_read_is_verified_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / ".lab/runs/x").mkdir(parents=True)
    (tmp_path / ".lab/runs/x/run.json").write_text("garbage")

    told = lab("verify", "x", cwd=tmp_path)

    assert told.code == 3
    assert told.out.splitlines()[-1] == "x: NOT sound: 1 problem, unfinished: 0 of 0 committed"
