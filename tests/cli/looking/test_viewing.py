"""`lab view` as a process: what it prints, and how it ends."""

import os
import re
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.request import urlopen

import pytest

from labrunner.cli.looking.viewing import find_target, tell_tunnel
from labrunner.view.web.webserver import Served
from tests.kit.cli.calling import lab
from tests.kit.cli.live import listening
from tests.kit.made_runs import Told, make_grid, write_run


def viewing(folder: Path, *words: str, **env: str) -> AbstractContextManager["subprocess.Popen[str]"]:
    return listening(folder, "view", "--no-open", *words, **env)


def read_until(process: "subprocess.Popen[str]", word: str) -> str:
    assert process.stdout is not None
    said = ""
    while word not in said:
        line = process.stdout.readline()
        assert line, f"it ended after: {said}"
        said += line
    return said


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / ".lab/runs", make_grid(), lambda _: Told(), run_id="one")
    return tmp_path


def test_it_serves_until_ctrl_c_which_ends_it_at_once(runs: Path) -> None:
    with viewing(runs, "one", SSH_CONNECTION="1 2 3 4") as process:
        said = read_until(process, "Ctrl-C")
        address = re.search(r"http://\S+", said)
        assert address is not None
        port = address[0].split(":")[2].split("/")[0]
        assert address[0] == f"http://127.0.0.1:{port}/run/one"
        assert f"ssh -L {port}:localhost:{port} " in said
        with urlopen(address[0]) as answer:
            assert b"/pages/app.js" in answer.read()
        began = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(10) == 130
        assert time.monotonic() - began < 2


def test_an_address_for_others_comes_with_a_token(runs: Path) -> None:
    with viewing(runs, "--host", "0.0.0.0") as process:
        said = read_until(process, "Ctrl-C")
    assert re.search(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}(?![\w-])", said)
    refused = lab("view", "--host", "0.0.0.0", "--token", "short", "--no-open", cwd=runs)
    assert (refused.code, "at least 16" in refused.err) == (2, True)


def test_a_run_is_found_by_name_and_a_folder_of_runs_by_its_path(runs: Path) -> None:
    folder = runs / ".lab/runs"
    assert find_target(folder, None) == (folder, None)
    assert find_target(Path("elsewhere"), str(folder)) == (folder, None)
    assert find_target(Path("elsewhere"), str(runs)) == (folder, None)
    found, run = find_target(folder, "on")
    assert (found, run and run.root.name) == (folder, "one")


def test_a_tunnel_is_told_where_this_seems_to_be_far_away() -> None:
    place = Served(host="127.0.0.1", port=7575, token=None)
    assert tell_tunnel(place, {}) is None
    line = tell_tunnel(place, {"SSH_TTY": "x"})
    assert line is not None
    assert line.startswith("ssh -L 7575:localhost:7575 ")
