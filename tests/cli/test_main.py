import subprocess
from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap.program import find_bwrap
from tests.kit.cli.calling import LAB, environment, lab, write_experiment


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command.replace("lab", LAB)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )


def read_only(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`lab` where nothing can be written, root or not."""
    bwrap = find_bwrap()
    assert bwrap is not None
    argv = [bwrap.path, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", LAB, *command.split()]
    return subprocess.run(argv, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=100)


def test_a_run_without_any_stream_goes_to_its_end(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=2)

    ended = shell("exec lab run --run-id x <&- >&- 2>&-", tmp_path)

    assert ended.returncode == 0
    assert "complete: 2 of 2 committed" in lab("verify", "x", cwd=tmp_path).out


def test_output_that_can_not_be_written_is_told_in_words(tmp_path: Path) -> None:
    ended = shell("lab log list >/dev/full", tmp_path)
    assert (ended.returncode, ended.stderr) == (
        3,
        "lab log: writing to standard output: No space left on device\n",
    )


def test_a_current_folder_that_is_gone_is_told_in_words(tmp_path: Path) -> None:
    write_experiment(tmp_path, tasks=1)
    ended = shell(
        'dir=$PWD; mkdir gone && cd gone && rmdir "$dir/gone" && lab run "$dir/experiment.yaml"', tmp_path
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "lab run: the current folder is gone; change to one that exists\n",
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("lab --help", 0),
        ("lab show --help", 0),
        ("lab log list", 0),
        ("lab show x", 0),
        ('lab query x "SELECT * FROM trials"', 0),
        ('lab show x --require "pass >= 1"', 4),
        ('lab compare x --require "pass >= 1"', 4),
        ("lab run", 0),
        ("lab run --task-id t0 --require-coverage 2", 2),
    ],
)
def test_a_reader_who_goes_away_does_not_change_the_exit_code(
    finished: Path, command: str, code: int
) -> None:
    ended = shell(f"{{ {command}; echo $? >&2; }} | true", finished)
    assert ended.stderr.splitlines()[-1] == str(code), ended.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_experiment(tmp_path_factory.mktemp("finished"), extra="variants: [{id: a}, {id: b}]\n")
    assert lab("run", "--run-id", "x", cwd=folder).code == 0
    return folder


@pytest.mark.bwrap
@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("doctor", 2, "can't be written to by this user, or at all; choose another --log-dir"),
        ("run", 2, "can't be written to by this user, or at all; choose another --log-dir"),
        ("init sub", 3, "lab init: writing an experiment to sub: the file system is read-only"),
        ("export x --to csv", 3, "the file system is read-only"),
    ],
)
def test_a_place_that_can_only_be_read_is_told_in_words(
    finished: Path, command: str, code: int, told: str
) -> None:
    ended = read_only(command, finished)
    assert ended.returncode == code, ended.stderr
    assert told in " ".join((ended.stdout + ended.stderr).split())
    assert "Traceback" not in ended.stderr


@pytest.mark.bwrap
def test_what_can_be_read_is_shown_from_a_place_that_can_only_be_read(finished: Path) -> None:
    shown = read_only("show x", finished)
    assert shown.stdout.startswith("success: all 6 trials finished"), shown.stderr


@pytest.mark.parametrize("target", ["nowhere/at/all", "runs"])
def test_a_link_that_leads_nowhere_or_in_a_circle_is_told_in_words(tmp_path: Path, target: str) -> None:
    write_experiment(tmp_path)
    (tmp_path / "runs").symlink_to(target)
    for command in ("run", "doctor"):
        ended = lab(command, "--log-dir", "runs/night", cwd=tmp_path)
        assert ended.code == 2
        told = " ".join((ended.out + ended.err).split())
        assert "is a symbolic link that leads nowhere; choose another --log-dir" in told


def test_a_place_that_can_not_be_looked_at_is_told_in_words(tmp_path: Path) -> None:
    name = "x" * 300
    told = lab("run", name, cwd=tmp_path)
    assert (told.code, told.err) == (3, f"lab run: {name}: file name too long\n")


def test_help_of_a_command_by_name_is_that_commands_help(tmp_path: Path) -> None:
    asked = lab("help", "run", cwd=tmp_path)
    assert asked.code == 0
    assert asked.out == lab("run", "--help", cwd=tmp_path).out
    assert lab("help", "no-such", cwd=tmp_path).code == 2


NASTY = "\\e[31mred\\u202Eturned"
"""As YAML writes an escape and a character that turns text around."""


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (f'description: "{NASTY}"\n', ("plan",)),
        (f'nonsense: "{NASTY}"\n', ("plan",)),
        (f'"{NASTY}": 1\n', ("run",)),
        (f'keep: {{workspace: "{NASTY}"}}\n', ("doctor",)),
        (f'tags: ["{NASTY}"]\nmetadata: {{note: "{NASTY}"}}\n', ("run", "--run-id", "r")),
        ("", ("run", "--variant", "\x1b[31m\u202e")),
        ("", ("show", "\x1b[31m\u202e")),
    ],
)
def test_what_an_author_wrote_reaches_the_terminal_as_text_only(
    tmp_path: Path, extra: str, words: tuple[str, ...]
) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1, extra=extra)
    answer = lab(*words, cwd=folder)
    shown = answer.out + answer.err
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_runs_are_found_from_a_sub_folder_and_it_is_said_which(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=1)
    lab("run", "--run-id", "r", cwd=folder)
    below = folder / "agent"
    home = {"HOME": str(tmp_path)}
    shown = lab("show", "r", cwd=below, env=home)
    assert (shown.code, shown.err) == (0, "runs of ../.lab/runs\n")
    listed = lab("log", "list", "--json", cwd=below, env=home).json()
    assert [(each["run_id"], each["means"]) for each in listed] == [("r", {"baseline": 0.0})]
    assert lab("show", "r", cwd=below, env=home | {"LAB_LOG_DIR": "here"}).code == 2
    assert lab("retry", "r", "--dry-run", cwd=below, env=home).code == 0
