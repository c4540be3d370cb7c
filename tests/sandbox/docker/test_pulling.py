"""Images from a real registry, pulled by a real engine."""

import asyncio
import base64
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.engine.arrival import PullProgress
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.images import Images
from labrunner.sandbox.docker.engine.replies import PullNews
from labrunner.sandbox.docker.maker import DockerMaker
from tests.kit.builders import make_sandbox
from tests.kit.cli.calling import LAB
from tests.kit.docker.registry import Registry
from tests.kit.waiting import Pauses

EXPERIMENT = """
name: pulled
tasks: [{{id: a, input: x, image: "{a}"}}, {{id: b, input: x, image: "{b}"}}]
agent: {{command: "cp /name answer"}}
grader:
  command: test -s answer && echo '{{"verdict":"pass"}}' > $$AGENTLAB_BENCHMARK_SCORE_PATH
sandbox: {{kind: docker, image: unused, memory_mb: 64, {more}}}
replications: 2
max_concurrency: 1
min_free_disk_gb: 0
"""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    yield engine
    await engine.close()


async def is_there(engine: Engine, image: str) -> bool:
    try:
        await engine.image(image)
    except EngineRefused:
        return False
    return True


async def test_an_image_is_pulled_and_known_by_its_digest(registry: Registry, engine: Engine) -> None:
    digest, image = registry.move("some/tool"), registry.image("some/tool")
    found = await Images(engine).resolve(make_sandbox(image=image))
    assert found.repo_digest == f"{image.removesuffix(':1')}@{digest}"
    await engine.remove_image(image)


async def test_a_busy_registry_is_asked_again_after_a_pause(registry: Registry, engine: Engine) -> None:
    image, pauses = registry.image("busy"), Pauses()
    registry.busy = 4
    await Images(engine, pauses).resolve(make_sandbox(image=image))
    assert pauses.taken == [4.0 * 2**n for n in range(len(pauses.taken))]
    assert pauses.taken
    await engine.remove_image(image)


async def test_a_registry_that_stays_busy_is_named(registry: Registry, engine: Engine) -> None:
    registry.busy = 1000
    with pytest.raises(SandboxFailed, match=r"pulling image .*busy:1: toomanyrequests.*by hand"):
        await Images(engine, Pauses()).resolve(make_sandbox(image=registry.image("busy")))


async def test_a_private_image_is_pulled_with_the_stored_login(
    registry: Registry, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.login = "ann:secret"
    image = registry.image("private/tool")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(SandboxFailed, match=r"pulling image .*private/tool"):
        await Images(engine, Pauses()).resolve(make_sandbox(image=image))
    host = image.partition("/")[0]
    auths = {host: {"auth": base64.b64encode(registry.login.encode()).decode()}}
    (tmp_path / "config.json").write_text(json.dumps({"auths": auths}))
    found = await Images(engine, Pauses()).resolve(make_sandbox(image=image))
    assert (found.repo_digest or "").startswith(host)
    await engine.remove_image(image)


async def test_three_images_come_at_once_and_no_more(registry: Registry, engine: Engine) -> None:
    registry.crowd = 3
    names = [registry.image(f"crowd{n}") for n in range(7)]
    images = Images(engine)
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(images.resolve(make_sandbox(image=name)))
    assert registry.most == 3
    for name in names:
        await engine.remove_image(name)


async def test_a_name_means_the_same_after_it_was_removed_and_its_tag_moved(
    registry: Registry, engine: Engine
) -> None:
    registry.move("moved", version="old")
    plan = make_sandbox(image=registry.image("moved"), pull="lazy", prune_images=True)
    images = Images(engine)
    before = await images.take(plan)
    await images.give_back(plan)
    assert not await is_there(engine, registry.image("moved"))
    registry.move("moved", version="new")
    assert (await images.take(plan)).id == before.id
    await images.give_back(plan)
    assert not await is_there(engine, before.id)


async def test_a_probe_does_not_use_up_an_image(registry: Registry) -> None:
    maker = DockerMaker()
    plan = make_sandbox(kind="docker", image=registry.image("probed"), memory_mb=64, prune_images=True)
    assert all(check.passed for check in await maker.preflight(plan))
    await maker.close()
    assert await is_there(maker.engine, registry.image("probed"))
    await maker.engine.remove_image(registry.image("probed"))
    await maker.close()


def run(folder: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([LAB, *argv], cwd=folder, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("pull", ["preflight", "lazy"])
async def test_a_run_pulls_its_tasks_images_and_removes_them_where_asked(
    tmp_path: Path, registry: Registry, engine: Engine, pull: str
) -> None:
    a, b = registry.image("a"), registry.image("b")
    text = EXPERIMENT.format(a=a, b=b, more=f"pull: {pull}, prune_images: true")
    (tmp_path / "experiment.yaml").write_text(text)

    done = await asyncio.to_thread(run, tmp_path, "run", "--run-id", "r", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"]["counts"]["passed"] == 4
    assert f"pulling {a}" in done.stderr
    for image in (a, b):
        assert not await is_there(engine, image)
    timings = (tmp_path / ".lab/runs/r/facts/timings.jsonl").read_text().splitlines()
    digests = {json.loads(line)["attempts"][0]["limits"]["image_ref"] for line in timings}
    assert len(digests) == 2
    assert all("@sha256:" in digest for digest in digests)


def test_a_lazy_image_is_not_pulled_by_preflight(tmp_path: Path, registry: Registry) -> None:
    text = EXPERIMENT.format(a=registry.image("a"), b="127.0.0.1:9/nobody/home:1", more="pull: lazy")
    (tmp_path / "experiment.yaml").write_text(text + "fail_on_error: false\nbreaker: {after: 100}\n")

    done = run(tmp_path, "run", "--run-id", "r", "--json", "--replications", "1")

    counts = json.loads(done.stdout)["status"]["counts"]
    assert (counts["passed"], counts["errors"]) == (1, 1)
    rows = map(json.loads, (tmp_path / ".lab/runs/r/facts/trials.jsonl").read_text().splitlines())
    assert [(row["cause"], row["reason"]) for row in rows] == [(None, None), ("sandbox", "image_missing")]


def test_how_far_a_pull_has_come_is_told_now_and_then() -> None:
    arrival = PullProgress(told_at=0.0)

    def hear(now: float, status: str, layer: str = "", current: int = 0, total: int = 0) -> list[str]:
        news = PullNews(status=status, layer=layer, current=current, total=total)
        return list(arrival.hear(news, now))

    assert hear(0, "Pulling from x", "1") == []
    assert hear(1, "Downloading", "aa", 1_000_000, 4_000_000) == []
    assert hear(6, "Downloading", "bb", 500_000, 1_000_000) == ["1.5 of 5.0 MB"]
    assert hear(8, "Pull complete", "aa") == []
    assert hear(12, "Extracting", "bb") == ["5.0 of 5.0 MB"]
    assert hear(13, "Digest: sha256:1") == ["Digest: sha256:1"]
