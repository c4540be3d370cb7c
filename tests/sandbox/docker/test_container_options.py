"""What an experiment can ask of its containers, tried in real ones."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from labrunner.experiment.resolved import Folder, Network, Setup
from labrunner.files.host import process_mark
from labrunner.records.completion import Failed, Graded
from labrunner.records.encoding.ids import make_token
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.labels import KEPT
from labrunner.sandbox.docker.engine.replies import EngineFacts, ImageFacts
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.docker.probing.container_check import check_volumes
from labrunner.sandbox.door import Check, Demands
from tests.kit.builders import make_sandbox
from tests.kit.docker.site import GRADE, Site
from tests.kit.docker.testimages import APP_USER, NO_MV, NO_SHELL, VOLUME, Images
from tests.kit.docker.trials import FAIL, PASS, Trial, shell
from tests.kit.sandbox.place import sh

FULL, NONE = Network(mode="full"), Network(mode="none")
SHOW_NET = "ls /sys/class/net"


@pytest.fixture
def trial(tmp_path: Path, ash: str) -> Trial:
    return Trial(root=tmp_path / "run", image=ash, grader=shell(PASS))


@pytest.mark.parametrize("setup", [NONE, FULL], ids=["setup-none", "setup-full"])
@pytest.mark.parametrize("agent", [NONE, FULL], ids=["agent-none", "agent-full"])
@pytest.mark.parametrize("grader", [NONE, FULL], ids=["grader-none", "grader-full"])
async def test_each_phase_has_its_own_network(
    site: Site, setup: Network, agent: Network, grader: Network
) -> None:
    spec = site.spec(demands=Demands(networks=(setup, agent, grader)))
    async with site.maker.open(spec) as sandbox:
        run = await sandbox.run_agent(sh(SHOW_NET, name="setup", network=setup), sh(SHOW_NET, network=agent))
        end = await sandbox.run_grader(sh(f"{SHOW_NET}; {GRADE}", name="grader", network=grader))
    assert run.agent is not None
    assert (run.agent.exit_status, end.exit_status) == (0, 0)
    for name, network in (("setup", setup), ("agent", agent), ("grader", grader)):
        seen = (spec.folders.logs / f"{name}.stdout").read_text().split()
        assert any(device.startswith("eth") for device in seen) == (network == FULL), (name, seen)


@pytest.mark.parametrize("setup", [NONE, FULL], ids=["setup-none", "setup-full"])
@pytest.mark.parametrize("agent", [NONE, FULL], ids=["agent-none", "agent-full"])
@pytest.mark.parametrize("grader", [NONE, FULL], ids=["grader-none", "grader-full"])
async def test_a_container_that_is_started_again_keeps_the_network_of_each_phase(
    site: Site, setup: Network, agent: Network, grader: Network
) -> None:
    spec = site.spec(demands=Demands(networks=(setup, agent, grader), restart=True))
    async with site.maker.open(spec) as sandbox:
        await sandbox.run_agent(sh(SHOW_NET, name="setup", network=setup), sh(SHOW_NET, network=agent))
        end = await sandbox.run_grader(sh(f"{SHOW_NET}; {GRADE}", name="grader", network=grader))
    assert end.exit_status == 0
    for name, network in (("setup", setup), ("agent", agent), ("grader", grader)):
        seen = (spec.folders.logs / f"{name}.stdout").read_text()
        assert ("eth" in seen) == (network == FULL), (name, seen)


async def test_the_root_can_be_read_only(trial: Trial) -> None:
    trial.sandbox = {"read_only": True, "tmpfs": {"/scratch": "size=1m"}}
    trial.agent = shell(
        "touch /root/x || echo root; echo a > a; echo b > $HOME/b; echo c > $TMPDIR/c;"
        " echo d > /scratch/d; head -c 2000000 /dev/zero > /scratch/e || echo full"
    )
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.flags == ()
    assert trial.log("agent.stdout") == "root\nfull\n"


async def test_a_working_directory_of_the_image_is_no_system(trial: Trial) -> None:
    trial.sandbox = {"workdir": "/home/app"}
    trial.agent = shell("pwd; echo 1 > inside")
    trial.grader = shell(f"pwd; cat inside; {PASS}")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.flags == ()
    assert trial.log("agent.stdout") == "/home/app\n"
    assert trial.log("grader.stdout") == "/home/app\n1\n"


async def test_limits_are_the_engines_and_are_recorded(site: Site) -> None:
    spec = site.spec(cpus=0.5, memory_mb=96, pids=40)
    async with site.maker.open(spec) as sandbox:
        (container,) = await site.maker.engine.list(f"labrunner.place={site.run.place}")
        facts = await site.maker.engine._get(f"containers/{container.id}/json", "looking")
    host = facts["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (500_000_000, 96 << 20, 96 << 20)
    assert host["PidsLimit"] == 43
    assert (host["NetworkMode"], host["CapDrop"], host["SecurityOpt"][0]) == (
        "none",
        ["ALL"],
        "no-new-privileges",
    )
    assert host["LogConfig"]["Config"]["max-size"] == "256k"
    assert sandbox.limits["memory_mb"] == 96
    assert str(sandbox.limits["image"]).startswith("sha256:")


async def test_strict_restarts_the_container(trial: Trial) -> None:
    trial.experiment_changes = {"trust": "strict"}
    trial.agent = shell("echo $$ > pid; sleep 100 & exit 2")
    trial.grader = shell(f"cat pid; {PASS}")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert (completion.end.verdict, completion.barrier) == ("pass", "restarted")
    assert completion.agent is not None
    assert completion.agent.exit_status == 2


async def test_collected_paths_are_copied_and_links_are_not_followed(trial: Trial) -> None:
    host = trial.root / "host-secret"
    trial.root.mkdir(parents=True)
    host.write_text("of the host")
    trial.experiment_changes = {"collect": ("report", "one.txt", "/home/app/deep", "gone", "/nowhere/at/all")}
    trial.agent = shell(
        "mkdir -p report/sub /home/app/deep; echo 1 > one.txt; echo 2 > report/two;"
        " echo 3 > report/sub/three;"
        f" ln -s {host} report/link; mkfifo report/pipe; echo 4 > /home/app/deep/four;"
        " ln -s /etc/passwd /home/app/deep/link"
    )
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    kept = {str(path.relative_to(trial.folders.artifacts)): path.read_text()
            for path in trial.folders.artifacts.rglob("*") if path.is_file()}  # fmt: skip
    assert kept == {
        "one.txt": "1\n",
        "report/two": "2\n",
        "report/sub/three": "3\n",
        "home/app/deep/four": "4\n",
    }
    named = {file.path: file.digest for file in completion.files}
    assert named["artifacts/one.txt"] == "sha256:" + hashlib.sha256(b"1\n").hexdigest()


async def test_setup_of_a_task_runs_before_its_agent(trial: Trial) -> None:
    trial.task = {"setup": Setup(command=shell("echo ready > state"), timeout_s=5.0)}
    trial.agent = shell("cat state")
    await trial.carry_out()
    assert trial.log("agent.stdout") == "ready\n"


REFUSALS = pytest.mark.parametrize(
    "refusal", [{"trust": "strict"}, {"on_system_change": "refuse"}], ids=["strict", "refuse"]
)


@REFUSALS
async def test_what_setup_installs_is_not_held_against_the_agent(
    trial: Trial, refusal: dict[str, str]
) -> None:
    trial.experiment_changes = dict(refusal)
    install = "mkdir /opt; echo tool > /opt/tool; rm /bin/gzip; echo x >> /etc/passwd"
    trial.task = {"setup": Setup(command=shell(install), timeout_s=5.0)}
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert (completion.end.verdict, completion.end.flags) == ("pass", ())


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees when a container's files were changed")
@pytest.mark.parametrize(
    "change",
    [
        "echo evil > /opt/tool",
        "rm /opt/tool",
        "mv /opt /usr/opt",
        "touch -d 2001-01-01 /opt/tool",
        "rm /bin/ls",
    ],
)
@REFUSALS
async def test_an_agents_change_of_what_setup_installed_is_found(
    trial: Trial, change: str, refusal: dict[str, str]
) -> None:
    trial.experiment_changes = dict(refusal)
    trial.task = {"setup": Setup(command=shell("mkdir /opt; echo tool > /opt/tool"), timeout_s=5.0)}
    trial.agent = shell(change)
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.verdict == "fail"
    assert completion.end.flags == ("not_graded", "system_changed")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees when a container's files were changed")
@pytest.mark.parametrize(("change", "is_changed"), [(":", False), ("echo evil > /opt/tool", True)])
async def test_what_setup_installs_is_there_unless_the_agent_changed_something(
    trial: Trial, change: str, is_changed: bool
) -> None:
    trial.task = {"setup": Setup(command=shell("mkdir /opt; echo tool > /opt/tool"), timeout_s=5.0)}
    trial.agent = shell(change)
    trial.grader = shell(f"cat /opt/tool; {PASS}")
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.end.flags == (("system_changed",) if is_changed else ())
    assert completion.barrier == ("fresh_container" if is_changed else "restarted")
    assert trial.log("grader.stdout") == ("" if is_changed else "tool\n")


async def test_setup_that_fails_is_its_own_cause(trial: Trial) -> None:
    trial.task = {"setup": Setup(command=shell("exit 9"), timeout_s=5.0)}
    completion = await trial.carry_out()
    assert isinstance(completion.end, Failed)
    assert (completion.end.cause, completion.end.reason) == ("setup", "setup_exit")


async def test_a_grader_without_a_verdict_is_tried_again_and_then_an_error(trial: Trial) -> None:
    trial.grader = shell("echo try >> tries; exit 1")
    trial.grader_changes["retries"] = 2
    completion = await trial.carry_out()
    assert isinstance(completion.end, Failed)
    assert (completion.end.reason, completion.grader_tries) == ("grader_exit", 3)
    assert (trial.folders.workspace / "tries").read_text() == "try\n" * 3


async def test_a_grader_that_answers_nonsense_is_tried_again_in_the_same_container(trial: Trial) -> None:
    trial.grader = shell(
        f"[ -e once ] || {{ touch once; echo nonsense > $AGENTLAB_BENCHMARK_SCORE_PATH; exit; }}; {FAIL}"
    )
    trial.grader_changes["retries"] = 1
    completion = await trial.carry_out()
    assert isinstance(completion.end, Graded)
    assert completion.grader_tries == 2


async def test_a_kept_container_is_named_so_and_is_not_reaped(site: Site) -> None:
    spec = site.spec()
    assert spec.mark is not None
    async with site.maker.open(spec) as sandbox:
        await sandbox.run_agent(None, sh(":"))
    await site.maker.release(spec.mark.token, keep=True)
    (name,) = await site.containers()
    assert name.startswith(KEPT)
    assert await site.maker.reap(site.run, frozenset()) == 0
    assert await site.maker.survivors(site.run) == ()
    assert await site.maker.reap(site.run, frozenset(), kept=True) == 1


async def count_containers(maker: DockerMaker) -> int:
    return len(await maker.engine._get("containers/json?all=true", "counting containers"))


async def test_a_build_that_fails_tells_its_output_and_leaves_no_container(
    maker: DockerMaker, ash: str, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {ash}\nRUN echo the reason; exit 3\n")
    plan = make_sandbox(kind="docker", build=Folder(path=str(tmp_path), digest=f"sha256:{make_token()}"))
    before = await count_containers(maker)
    message = failed(await maker.preflight(plan))["image"]
    assert await count_containers(maker) == before
    assert f"sandbox.build: {tmp_path}:" in message
    assert "returned a non-zero code: 3" in message
    assert "\n  the reason" in message


async def test_an_image_is_built_from_a_folder_once(maker: DockerMaker, ash: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {ash}\nRUN echo built > /built\nENV MADE=yes\n")
    digest = "sha256:" + hashlib.sha256(str(tmp_path).encode()).hexdigest()
    plan = make_sandbox(kind="docker", build=Folder(path=str(tmp_path), digest=digest))
    first = await maker._images.resolve(plan)
    assert first.env["MADE"] == "yes"
    (tmp_path / "Dockerfile").write_text("this is no Dockerfile")
    again = DockerMaker()
    assert (await again._images.resolve(plan)).id == first.id
    await again.close()
    await maker.engine._ask("DELETE", f"images/{first.id}?force=true", "removing an image")


def failed(checks: tuple[Check, ...]) -> dict[str, str]:
    return {check.name.split(" ")[0]: check.message for check in checks if not check.passed}


async def test_preflight_says_that_all_is_well(maker: DockerMaker, ash: str, tmp_path: Path) -> None:
    plan = make_sandbox(kind="docker", image=ash)
    demands = Demands(
        agent_user="app", grader_user="root", networks=(NONE, FULL, NONE), place=tmp_path / "not" / "yet"
    )
    checks = await maker.preflight(plan, demands)
    assert failed(checks) == {}
    named = {check.name.split(" of")[0] for check in checks}
    assert named == {"docker", "docker disk", "limits", "image", "container", "barrier"}
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert await maker.engine.list(f"labrunner.probe={process_mark()}") == ()


async def test_preflight_tries_whether_doors_can_be_opened_in_a_container(
    maker: DockerMaker, ash: str
) -> None:
    plan = make_sandbox(kind="docker", image=ash)
    asked = Demands(networks=(NONE, Network(mode="none", models=("m",)), NONE))
    assert failed(await maker.preflight(plan, asked)) == {}


async def test_preflight_names_what_is_wrong(maker: DockerMaker, images: Images) -> None:
    no_mv = make_sandbox(kind="docker", image=await images(NO_MV))
    no_sh = make_sandbox(kind="docker", image=await images(NO_SHELL))
    app = make_sandbox(kind="docker", image=await images(APP_USER))
    assert "lacks the tool: mv" in failed(await maker.preflight(no_mv))["container"]
    assert "no /bin/sh" in failed(await maker.preflight(no_sh))["container"]
    assert "no user bob" in failed(await maker.preflight(app, Demands(agent_user="bob")))["container"]
    missing = make_sandbox(kind="docker", image="lab-test:never-made", pull="never")
    assert "is not there" in failed(await maker.preflight(missing))["image"]
    assert "needs an image" in failed(await maker.preflight(make_sandbox(kind="docker")))["image"]
    greedy = make_sandbox(kind="docker", image=app.image, cpus=1000.0, asked=("cpus",))
    assert "asks for cpus: 1000" in failed(await maker.preflight(greedy))["limits"]
    away = make_sandbox(kind="docker", image=app.image, workdir="/src")
    assert "there is no folder /src in this image" in failed(await maker.preflight(away))["container"]
    stuck = make_sandbox(kind="docker", image=app.image, workdir="/usr")
    assert "elsewhere" in failed(await maker.preflight(stuck, Demands(fresh_grader=True)))["grader.where"]
    told = failed(await maker.preflight(stuck, Demands(renews_changed=True)))["on_system_change"]
    assert "/usr" in told
    assert "flag" in told
    assert "refuse" in told
    fleeting = make_sandbox(kind="docker", image=app.image, workdir="/src/x", tmpfs={"/src": "size=1m"})
    assert "lies in the tmpfs /src" in failed(await maker.preflight(fleeting))["workdir"]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"asked": ("disk_mb",)}, ["error"]),
        ({"asked": ("disk_mb",), "limits": "best_effort"}, ["warning"]),
        ({}, ["warning"]),
        ({"asked": ("disk_mb",), "tmpfs": {"/data": "size=1m"}}, []),
    ],
)
def test_volumes_that_can_t_be_counted_are_told_before_anything_is_spent(
    changes: dict[str, Any], found: list[str]
) -> None:
    image = ImageFacts(id="sha256:1", repo_digest=None, user="", env={}, volumes=("/data",))
    engine = EngineFacts.of({"DockerRootDir": "/where/nobody/can/look"})
    checks = list(check_volumes(make_sandbox(kind="docker", **changes), image, engine))
    assert [check.severity for check in checks] == found
    assert all("(/data), so disk_mb does not hold there" in check.message for check in checks)


@pytest.mark.root
async def test_an_image_s_volumes_are_known_and_no_matter_for_who_may_look(
    images: Images,
) -> None:
    maker = DockerMaker()
    plan = make_sandbox(kind="docker", image=await images(VOLUME), asked=("disk_mb",))
    try:
        assert (await maker.engine.image(str(plan.image))).volumes == ("/data",)
        assert all(check.passed for check in await maker.preflight(plan))
    finally:
        await maker.close()


async def test_preflight_without_an_engine_says_what_to_do(tmp_path: Path) -> None:
    maker = DockerMaker(Engine(f"unix://{tmp_path}/nobody"))
    (check,) = await maker.preflight(make_sandbox(kind="docker", image="x"))
    assert not check.passed
    assert f"{tmp_path}/nobody is no socket; start Docker" in check.message
    await maker.close()


@pytest.mark.parametrize(
    "address",
    ["banana", "http://x:99999", "tcp://127.0.0.1:0", "npipe://x", "npipe:////./pipe/docker_engine"],
)
async def test_an_address_that_is_none_is_told(address: str) -> None:
    maker = DockerMaker(Engine(address))
    (check,) = await maker.preflight(make_sandbox(kind="docker", image="x"))
    assert f"DOCKER_HOST is '{address}'" in check.message
    await maker.close()


async def test_a_missing_image_without_a_registry_is_a_clear_error(maker: DockerMaker) -> None:
    plan = make_sandbox(kind="docker", image="127.0.0.1:9/nobody/home:1")
    message = failed(await maker.preflight(plan))["image"]
    assert "pulling image 127.0.0.1:9/nobody/home:1" in message
    assert "pull or build it by hand" in message
