"""Attempts in containers, for tests behind the door."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labrunner.records.encoding.ids import make_token
from labrunner.sandbox.docker.engine.labels import PLACE
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.door import AttemptFolders, Demands, Sandbox, SandboxSpec
from labrunner.sandbox.marks import Mark, RunMark
from tests.kit.builders import make_sandbox
from tests.kit.sandbox.place import Place, make_place, plan

GRADE = 'echo "{\\"verdict\\": \\"pass\\"}" > /agentlab/out/benchmark_score.json'
"""A grader that passes whatever it finds."""


@dataclass(frozen=True, kw_only=True)
class DockerPlace(Place):
    """The place of the shared contract, in containers of one image."""

    image: str

    @classmethod
    def make(cls, maker: DockerMaker, root: Path, image: str) -> "DockerPlace":
        place = make_place(maker, root)
        return cls(maker=maker, folders=place.folders, agent_dir=None, image=image)

    @asynccontextmanager
    async def open(self, **limits: Any) -> AsyncIterator[Sandbox]:
        wanted = replace(plan(**limits), kind="docker", image=self.image)
        spec = SandboxSpec(folders=self.folders, plan=wanted, agent_dir=self.agent_dir)
        async with self.maker.open(spec) as sandbox:
            yield sandbox


@dataclass(kw_only=True)
class Site:
    """A run's folder with attempts in it."""

    maker: DockerMaker
    run_dir: Path
    image: str
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def run(self) -> RunMark:
        return RunMark.of(self.run_dir, "the-run")

    def spec(self, trial: str = "t", demands: Demands | None = None, **plan: Any) -> SandboxSpec:
        folders = AttemptFolders(root=self.run_dir / "trials" / trial / "1")
        for folder in folders.all():
            folder.mkdir(parents=True, exist_ok=True)
        mark = Mark(run=self.run, trial_id=trial, attempt=1, token=make_token())
        settings = {"kind": "docker", "image": self.image, "memory_mb": 256, **plan}
        return SandboxSpec(
            folders=folders,
            plan=make_sandbox(**settings),
            agent_dir=None,
            mark=mark,
            demands=demands or Demands(),
        )

    async def containers(self) -> list[str]:
        return [each.name for each in await self.maker.engine.list(f"{PLACE}={self.run.place}")]
