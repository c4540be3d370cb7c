"""Work in the image that is many files, or large: through whole runs, of root and of a plain user.

Judged in a fresh container, kept, graded again, as a patch and as a page; ended for its disk, too.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from labrunner.files.layering.layernote import LAYER, PATCH_FILE
from labrunner.view.left.changetelling import MOST_CHANGES, ChangeTeller
from labrunner.view.left.layertelling import tell_layer
from tests.kit.cli.calling import LAB
from tests.kit.docker.plainuser import give_to_nobody, lab_as_plain_user, plain_place
from tests.kit.docker.testimages import Images
from tests.kit.interop.swe_bench_cases import WITH_GIT, build_repository

LIMIT_S = 1500
EXPERIMENT = """
name: large
tasks: [{{id: a, input: x}}]
agent: {{dir: agent, command: "python3 -I $agent_dir/work.py {work}", timeout_s: 600}}
grader: {{where: fresh, dir: grader, command: "python3 -I $grader_dir/judge.py {work}", timeout_s: 600}}
sandbox: {{image: "{image}", workdir: /testbed, memory_mb: 1024, disk_mb: {disk_mb}, limits: best_effort}}
collect: [patch]
keep: {{workspace: always}}
min_free_disk_gb: 0
"""
WORK = """
import hashlib, os, socket, sys
kind, size = sys.argv[1], int(sys.argv[2])
os.chdir("/testbed")
os.unlink("old.txt")
os.link("long.txt", "same.txt")
os.symlink("/etc/passwd", "out")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
if kind == "many":
    for n in range(size):
        if n % 500 == 0:
            os.makedirs(f"many/{n}")
        with open(f"many/{n - n % 500}/{n}", "w") as file:
            file.write(str(n))
else:
    state = hashlib.sha256()
    with open("large.log", "wb") as file:  # which git ignores
        for n in range(size):
            data = os.urandom(1 << 20)
            state.update(data)
            file.write(data)
    open("print", "w").write(state.hexdigest())
"""
JUDGE = """
import hashlib, json, os, stat, sys
kind, size = sys.argv[1], int(sys.argv[2])
os.chdir("/testbed")
seen = {
    "gone": not os.path.exists("old.txt"),
    "linked": os.path.samefile("long.txt", "same.txt"),
    "link": os.readlink("out") == "/etc/passwd",
    "pipe": stat.S_ISFIFO(os.stat("pipe").st_mode),
    "socket": not os.path.lexists("socket"),
    "patch": os.path.exists(os.environ["AGENTLAB_PATCH_PATH"]),
}
if kind == "many":
    found = [os.path.join(folder, name) for folder, _, names in os.walk("many") for name in names]
    seen["many"] = sorted(int(open(path).read()) for path in found) == list(range(size))
else:
    state = hashlib.sha256()
    with open("large.log", "rb") as file:
        while piece := file.read(1 << 20):
            state.update(piece)
    seen["large"] = os.path.exists("print") and state.hexdigest() == open("print").read()
print(seen)
verdict = {"verdict": "pass" if all(seen.values()) else "fail"}
open(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"], "w").write(json.dumps(verdict))
"""


@dataclass(frozen=True, kw_only=True)
class Lab:
    """Whoever calls `lab`, and where."""

    folder: Path
    place: Path | None = None
    """Of a plain user."""

    def furnish(self, image: str, work: str, disk_mb: int) -> None:
        text = EXPERIMENT.format(image=image, work=work, disk_mb=disk_mb)
        (self.folder / "experiment.yaml").write_text(text)
        for name, script in (("agent/work.py", WORK), ("grader/judge.py", JUDGE)):
            (self.folder / name).parent.mkdir()
            (self.folder / name).write_text(script)
        if self.place is not None:
            give_to_nobody(self.folder)

    def call(self, *words: str) -> str:
        if self.place is not None:
            done = lab_as_plain_user(self.place, *words, timeout_s=LIMIT_S)
        else:
            argv = [LAB, *words]
            done = subprocess.run(
                argv, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def row(self, run: str, file: str = "trials") -> dict[str, Any]:
        [line] = (self.folder / ".lab/runs" / run / f"facts/{file}.jsonl").read_text().splitlines()
        row: dict[str, Any] = json.loads(line)
        return row

    def find(self, name: str) -> Path:
        [path] = (self.folder / ".lab/runs/x/trials").glob(f"*/1/{name}")
        return path


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    if request.param == "root":
        yield Lab(folder=tmp_path)
        return
    with plain_place() as place:
        yield Lab(folder=place / "work", place=place)


@pytest.fixture(scope="session")
def image(images: Images) -> str:
    return asyncio.run(build_repository(asyncio.run(images(WITH_GIT)), "lab-test:large"))


def check_run_and_regrade(lab: Lab) -> dict[str, Any]:
    """Both in a fresh container, with all that was left; what the barrier told."""
    lab.call("run", "--run-id", "x")
    lab.call("verify", "x")
    lab.call("regrade", "x", "--run-id", "y")
    rows = [lab.row("x"), lab.row("y")]
    said = lab.find("logs/grader.stdout").read_text()
    found = [(row["verdict"], row["barrier"]) for row in rows]
    assert found == [("pass", "fresh_container")] * 2, said + str(lab.row("x", "timings"))
    [told], [again] = (lab.row(run, "timings")["attempts"] for run in ("x", "y"))
    print("run:", told["phases_s"], "again:", again["phases_s"])
    assert "sockets 1" in lab.call("show", "x", "a")
    facts: dict[str, Any] = told["barrier"]
    return facts


def check_many(lab: Lab, image: str, count: int) -> None:
    lab.furnish(image, f"many {count}", 2000)
    told = check_run_and_regrade(lab)
    # Folders, `same.txt` and the file that it is a name of, the link, the pipe.
    assert told["layer_entries"] == count + -(-count // 500) + 6
    names = [
        line.split()[-1] for line in lab.find(PATCH_FILE).read_text().splitlines() if line[:5] == "diff "
    ]
    assert {"b/old.txt", "b/same.txt", "b/out", f"b/many/0/{min(count, 500) - 1}"} <= set(names)
    assert len(names) == count + 3
    page = tell_layer(lab.find(LAYER), ChangeTeller())
    changes = page["changes"]
    assert isinstance(changes, list)
    assert len(changes) == min(MOST_CHANGES, count + 5)
    assert changes[0].path == "old.txt"


def check_large(lab: Lab, image: str, mebibytes: int) -> None:
    lab.furnish(image, f"large {mebibytes}", mebibytes + 200)
    told = check_run_and_regrade(lab)
    assert lab.find(LAYER).stat().st_size > mebibytes << 20
    assert "large.log" not in lab.find(PATCH_FILE).read_text()
    assert told["patch_bytes"] < 10_000


WHO = pytest.mark.parametrize("lab", ["root", pytest.param("plain", marks=pytest.mark.root)], indirect=True)


@pytest.mark.timeout(200)
@WHO
def test_many_files_are_judged_kept_and_judged_again(lab: Lab, image: str) -> None:
    check_many(lab, image, 2_000)


@pytest.mark.torture
@pytest.mark.timeout(2 * LIMIT_S)
@WHO
def test_a_hundred_thousand_files_are_judged_kept_and_judged_again(lab: Lab, image: str) -> None:
    check_many(lab, image, 100_000)


@pytest.mark.torture
@pytest.mark.timeout(2 * LIMIT_S)
@WHO
def test_five_gigabytes_are_judged_kept_and_judged_again(lab: Lab, image: str) -> None:
    check_large(lab, image, 5 * 1024)


@pytest.mark.torture
@pytest.mark.timeout(LIMIT_S)
@WHO
def test_five_gigabytes_are_more_than_a_limit_that_says_so(lab: Lab, image: str) -> None:
    """The agent is ended for its disk, and judged as it stands: its work is not whole."""
    lab.furnish(image, f"large {5 * 1024}", 1000)
    lab.call("run", "--run-id", "x")
    row = lab.row("x")
    assert (row["outcome"], row["verdict"], row["ended_by"]) == ("graded", "fail", "disk")
