"""Several at one depot: who comes second waits, and nothing is taken away from a run."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit.cli.calling import LAB, environment, lab
from tests.kit.depot.packages import write_named_experiment, write_npm_agent

INSTALL = ("agents", "install", "./obedient.yaml")
USE = "use: ./obedient.yaml, model: main/gpt-5"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_npm_agent(tmp_path)
    return write_named_experiment(tmp_path, USE)


def test_who_comes_second_waits_and_installs_nothing_again(place: Path) -> None:
    assert lab(*INSTALL, cwd=place).code == 0
    [line] = (place / "cache/labrunner/agents/installed").glob("*.json")
    content = line.read_bytes()
    line.unlink()
    with line.with_suffix(".lock").open("r+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # as another process that is installing it
        words = [LAB, *INSTALL]
        with subprocess.Popen(
            words, cwd=place, env=environment(), stderr=subprocess.PIPE, text=True
        ) as second:
            assert second.stderr is not None
            waiting = second.stderr.readline()
            line.write_bytes(content)
            fcntl.flock(turn, fcntl.LOCK_UN)
            rest = second.stderr.read()
    assert waiting == "waiting for another process that is installing obedient==1.0.0\n"
    assert (second.returncode, rest) == (0, "")


def test_an_agent_that_a_run_uses_is_not_removed(place: Path) -> None:
    up, go = place / "up", place / "go"
    for pipe in (up, go):
        os.mkfifo(pipe)
    file = place / "experiment.yaml"
    file.write_text(
        file.read_text().replace("cat $HOME/.obedient/settings.json", f"echo up > {up}; cat {go}")
    )
    with subprocess.Popen([LAB, "run", "--run-id", "one"], cwd=place, env=environment()) as running:
        assert up.read_text() == "up\n"
        refused = lab("agents", "remove", "obedient", cwd=place)
        go.write_text("done")
    assert refused.code == 1
    assert "removing obedient==1.0.0: a run is using it; try again when that has ended" in refused.err
    assert running.returncode == 0
    assert lab("agents", "remove", "obedient", cwd=place).code == 0


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_disk_that_gets_full_is_told_and_nothing_is_left_on_it(place: Path) -> None:
    cache = place / "cache"
    cache.mkdir()
    (place / "pkg-1.0.0/large.bin").write_bytes(bytes(2_000_000))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", cache], check=True)
    try:
        answer = lab(*INSTALL, cwd=place)
        left = [path.name for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
        assert lab("agents", "list", "--json", cwd=place).json()["installed"] == []
        subprocess.run(["mount", "-o", "remount,size=20m", cache], check=True)
        again = lab(*INSTALL, cwd=place)
    finally:
        subprocess.run(["umount", cache], check=True)
    assert answer.code == 1
    told = "installing obedient==1.0.0 from npm: npm did not write all files, and said: npm warn tar"
    assert f"{told} TAR_ENTRY_ERROR ENOSPC" in answer.err
    assert left == []
    assert again.code == 0, again.err
