"""Killed while a layer is taken: whoever comes next takes it again, no agent runs twice, nothing is left."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from labrunner.files.layering.layernote import LAYER, LAYER_PART
from tests.kit.cli.calling import LAB
from tests.kit.docker.plainuser import give_to_nobody, plain_place, write_plain_command
from tests.kit.docker.traces import containers_of
from tests.kit.runner.running import committed_bytes

pytestmark = pytest.mark.crash

EXPERIMENT = """
name: killed
tasks: [{{id: a, input: x}}]
agent:
  command: >-
    echo agent >> /agentlab/state/started; rm -rf d; mkdir e;
    head -c {mebibytes}m /dev/urandom > /home/app/e/noise; wc -c < e/noise > size; exit 3
  timeout_s: 60
grader:
  where: fresh
  command: >-
    [ -e d ] || [ "$$(wc -c < e/noise)" != "$$(cat size)" ] || v=pass;
    echo "{{\\"verdict\\": \\"$${{v:-fail}}\\"}}" > $$AGENTLAB_BENCHMARK_SCORE_PATH
  timeout_s: 60
sandbox: {{kind: docker, image: "{image}", workdir: /home/app, memory_mb: 256, limits: best_effort}}
keep: {{workspace: {keep}}}
min_free_disk_gb: 0
fail_on_error: false
"""
POINTS = ("layer.begun", "layer.written", "layer.renamed", "layer.done")
SEEN_EVERY_S = 0.0005


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A folder with an experiment, and whoever calls `lab` there."""

    folder: Path
    place: Path | None = None
    """Of a plain user."""

    @property
    def run(self) -> Path:
        return self.folder / ".lab/runs/the-run"

    @property
    def attempts(self) -> list[Path]:
        return list(self.run.glob("trials/*/*"))

    def start(self, die_at: str = "") -> "subprocess.Popen[bytes]":
        words = ("continue", "the-run") if self.run.is_dir() else ("run", "--run-id", "the-run")
        argv = [LAB, *words]
        if self.place is not None:
            argv = write_plain_command(self.place, *words)
        env = {**os.environ, **({"LAB_DIE_AT": f"{die_at}:1"} if die_at else {})}
        return subprocess.Popen(
            argv, cwd=self.folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def finish(self) -> None:
        process = self.start()
        _, told = process.communicate(timeout=200)
        assert process.returncode == 0, told.decode()

    def left(self) -> list[str]:
        """Layers of the attempt, whole or not."""
        return sorted(path.name for path in self.run.glob("trials/*/*/layer*"))

    def die_at(self, point: str) -> list[str]:
        process = self.start(point)
        _, told = process.communicate(timeout=200)
        assert process.returncode == -signal.SIGKILL, told.decode()
        return self.left()

    def die_with(self, size: int) -> list[str]:
        """Killed once half a layer has this size; what is there then."""
        process = self.start()
        while process.poll() is None and not any(_has(path / LAYER_PART, size) for path in self.attempts):
            time.sleep(SEEN_EVERY_S)
        process.kill()
        _, told = process.communicate(timeout=200)
        assert process.returncode == -signal.SIGKILL, told.decode()
        return self.left()


def _has(part: Path, size: int) -> bool:
    try:
        return part.stat().st_size >= size
    except FileNotFoundError:
        return False


def furnish(folder: Path, image: str, keep: str, mebibytes: int) -> None:
    (folder / "experiment.yaml").write_text(EXPERIMENT.format(image=image, keep=keep, mebibytes=mebibytes))


def kill_at(lab: Lab, points: Sequence[str], sizes: Sequence[int]) -> list[list[str]]:
    """What there was of the layer after each kill.

    By sizes first: the first two also prove the engine, before and after there is a run, by own layers.
    """
    return [lab.die_with(size) for size in sizes] + [lab.die_at(point) for point in points]


def check(lab: Lab, calm: Lab, keep: str) -> None:
    lab.finish()
    calm.finish()
    [attempt] = lab.attempts
    assert (attempt / "state/started").read_text() == "agent\n"
    assert committed_bytes(lab.run) == committed_bytes(calm.run)
    assert '"verdict":"pass"' in (lab.run / "facts/trials.jsonl").read_text()
    assert lab.left() == calm.left() == ([LAYER] if keep == "always" else [])
    assert asyncio.run(containers_of(lab.run)) == []
    words = [LAB, "verify", "the-run"]
    told = subprocess.run(words, cwd=lab.folder, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.fixture(params=["root", "plain"])
def labs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Lab, Lab]]:
    """Two folders of the same user: one in which it is killed, a calm one."""
    if request.param == "root":
        yield make_two(tmp_path, None)
        return
    with plain_place() as first, plain_place() as second:
        yield Lab(folder=first / "work", place=first), Lab(folder=second / "work", place=second)


def make_two(folder: Path, place: Path | None) -> tuple[Lab, Lab]:
    labs = [Lab(folder=folder / name, place=place) for name in ("killed", "calm")]
    for lab in labs:
        lab.folder.mkdir()
    return labs[0], labs[1]


def test_a_layer_is_taken_again_by_whoever_comes_next(tmp_path: Path, ash: str) -> None:
    lab, calm = make_two(tmp_path, None)
    for each in (lab, calm):
        furnish(each.folder, ash, "never", 16)
    assert kill_at(lab, ("layer.renamed",), (1, 5 << 20)) == [[LAYER_PART], [LAYER_PART], [LAYER]]
    check(lab, calm, "never")


@pytest.mark.torture
@pytest.mark.root
@pytest.mark.timeout(900)
@pytest.mark.parametrize("keep", ["never", "always"])
def test_twenty_kills_while_one_layer_is_taken(labs: tuple[Lab, Lab], ash: str, keep: str) -> None:
    lab, calm = labs
    for each in labs:
        furnish(each.folder, ash, keep, 64)
        if each.place is not None:
            give_to_nobody(each.folder)
    points = POINTS if lab.place is None else ()
    sizes = 20 - len(points)
    left = kill_at(lab, points, [(64 << 20) * n // sizes for n in range(sizes)])
    assert left[:sizes].count([LAYER_PART]) >= sizes // 2, left
    assert left[sizes:] == [[LAYER_PART], [LAYER_PART], [LAYER], [LAYER]][: len(points)]
    check(lab, calm, keep)
