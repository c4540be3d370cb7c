"""What an agent in bubblewrap can't do, whoever started the runner."""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from labrunner.experiment.resolved import Network
from labrunner.sandbox.registry import make
from tests.kit.sandbox.place import Place, make_place, phase, plan, sh
from tests.kit.sandbox.users import drive_as_plain_user, drive_as_this_user, give_to_nobody

pytestmark = pytest.mark.bwrap
HERE = Path(__file__).parents[1] / "kit/sandbox"


@dataclass(frozen=True, kw_only=True)
class Ground:
    """An attempt's folders that the user in question owns."""

    user: str
    top: Path
    place: Place

    def drive(self, **order: Any) -> dict[str, Any]:
        whole = {
            "kind": "bubblewrap",
            "root": str(self.place.folders.root),
            "plan": asdict(plan(kind="bubblewrap")),
            "agent_dir": str(self.top / "agent"),
            **order,
        }
        if self.user == "this user":
            return drive_as_this_user(whole)
        give_to_nobody(self.top)
        os.chown(self.top, 0, 0)
        return drive_as_plain_user(whole, self.top)


@pytest.fixture(params=["this user", pytest.param("a plain user", marks=pytest.mark.root)])
def ground(request: pytest.FixtureRequest, bubble: Place) -> Iterator[Ground]:
    if request.param == "a plain user":
        request.getfixturevalue("need_root")
    top = Path(tempfile.mkdtemp(prefix="labrunner-test-"))
    top.chmod(0o755)
    try:
        (top / "agent").mkdir()
        (top / "agent" / "tool").write_text("x")
        yield Ground(user=request.param, top=top, place=make_place(bubble.maker, top / "attempt"))
    finally:
        shutil.rmtree(top)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def abstract_name() -> Iterator[str]:
    name = f"labrunner-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        yield name


def test_every_way_out_is_closed(ground: Ground, listener: socket.socket, abstract_name: str) -> None:
    secret = ground.top / "secret"
    secret.write_text("x")
    workspace = ground.place.folders.workspace
    facts = {
        "runner": os.getpid(),
        "port": listener.getsockname()[1],
        "abstract": abstract_name,
        "secret": str(secret),
    }
    (workspace / "facts.json").write_text(json.dumps(facts))
    shutil.copy(HERE / "attacks.py", workspace)
    done = ground.drive(agent=["{python}", "attacks.py"])
    assert done["statuses"] == [0], ground.place.stderr()
    report = json.loads((workspace / "report.json").read_text())
    assert set(report.pop("capabilities").split()) == {"0000000000000000"}
    assert report.pop("no_new_privs") == "1"
    assert len(report.pop("processes").split()) <= 4
    assert {"write /usr", "remount /agentlab/in", "new user namespace", "write /agentlab/agent"} <= set(
        report
    )
    assert {name: outcome for name, outcome in report.items() if not outcome.startswith("refused")} == {}
    assert not list(ground.top.rglob("planted"))


def test_the_graders_things_are_nowhere_to_be_found(ground: Ground) -> None:
    word = "zq-canary-7f3a"
    place = ground.place
    (ground.top / "hidden").mkdir()
    (ground.top / "hidden" / "target.json").write_text(word)
    (place.folders.logs / "old.stderr").write_text(word)
    (place.folders.scratch / word).mkdir()
    (place.folders.grader / "tests.py").write_text(word)
    shutil.copy(HERE / "canary.py", place.folders.workspace)
    search = ["{python}", "canary.py", word.encode().hex()]
    done = ground.drive(
        agent=search, grader=["/bin/sh", "-c", f"echo {word} >/dev/null; cat /agentlab/grader/tests.py"]
    )
    assert done["statuses"] == [0, 0], place.stderr()
    result = json.loads((place.folders.workspace / "found.json").read_text())
    assert result["found"] == []
    assert result["looked"] > 100
    assert place.stdout("grader") == word


def test_the_canary_is_heard_when_it_is_there(ground: Ground) -> None:
    word = "zq-canary-7f3a"
    (ground.place.folders.inputs / "task.json").write_text(word)
    shutil.copy(HERE / "canary.py", ground.place.folders.workspace)
    ground.drive(agent=["{python}", "canary.py", word.encode().hex()], env={"TOLD": word})
    result = json.loads((ground.place.folders.workspace / "found.json").read_text())
    assert {"/agentlab/in/task.json", "TOLD"} <= set(result["found"])


def test_files_belong_to_the_user_afterwards(ground: Ground) -> None:
    ground.drive(agent=["/bin/sh", "-c", "echo x > made; mkdir d; ln -s /etc/passwd link"])
    made = ground.place.folders.workspace / "made"
    assert made.lstat().st_uid == (os.geteuid() if ground.user == "this user" else 65534)


async def test_grader_sees_inputs_and_state_read_only_and_no_agent(bubble: Place, tmp_path: Path) -> None:
    agent_dir = tmp_path / "agent"
    agent_dir.mkdir()
    place = make_place(bubble.maker, tmp_path / "other", agent_dir)
    script = "cd /agentlab; touch in/x; touch state/x; touch grader/x; ls agent; touch out/x"
    async with place.open() as sandbox:
        await sandbox.run_agent(None, sh("touch /agentlab/state/events.jsonl && ls -d /agentlab/agent"))
        end = await sandbox.run_grader(sh(script, name="grader"))
    assert end.exit_status == 0
    assert place.stdout("agent") == "/agentlab/agent\n"
    assert place.stderr("grader").count("Read-only file system") == 3
    assert "'agent': No such file" in place.stderr("grader")


async def test_full_network_is_the_hosts(bubble: Place, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
    allowed = await bubble.run(phase(bubble.paths.python, "-c", connect, network=Network(mode="full")))
    refused = await bubble.run(phase(bubble.paths.python, "-c", connect))
    assert (allowed.exit_status, refused.exit_status) == (0, 1)


async def test_shared_memory_works_inside(bubble: Place) -> None:
    use = "import multiprocessing.shared_memory as m; m.SharedMemory(create=True, size=9).unlink()"
    assert (await bubble.run(phase(bubble.paths.python, "-c", use))).exit_status == 0, bubble.stderr()


async def test_secrets_are_in_no_command_line(bubble: Place) -> None:
    script = "tr '\\0' '\\n' < /proc/1/cmdline; cat /proc/1/environ"
    await bubble.run(sh(script, env={"PATH": "/usr/bin:/bin", "TOKEN": "s3cret-value"}))
    seen = bubble.stdout()
    assert "--args" in seen
    assert "s3cret-value" not in seen
    assert str(bubble.folders.root) not in seen


async def test_preflight_of_a_plan_with_container_fields_is_refused() -> None:
    checks = await make("bubblewrap").preflight(plan(kind="bubblewrap", image="x", workdir="/app"))
    assert [check.name for check in checks if not check.passed] == ["sandbox.image", "sandbox.workdir"]
