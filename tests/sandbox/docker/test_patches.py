"""A git work tree of the image: what was changed in it, as a patch that no agent's repository can forge."""

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.files.layering.layernote import PATCH_FILE
from labrunner.records.completion import Graded
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.door import Demands
from tests.kit.builders import make_sandbox
from tests.kit.docker.testimages import GIT, ensure
from tests.kit.docker.trials import PASS, Trial, by_list, shell

COMMIT = ("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "base")


@pytest.fixture(scope="session")
def repository(engine_answers: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with a repository in it."""
    tree = tmp_path_factory.mktemp("repo")
    for name, text in {"kept": "1\n2\n3\n", "gone": "gone\n", ".gitignore": "*.o\n"}.items():
        (tree / name).write_text(text)
    for argv in (("init", "-q"), ("add", "-A"), COMMIT):
        subprocess.run(["git", "-C", tree, *argv], check=True)
    files = sorted(path for path in tree.rglob("*") if path.is_file() and "hooks" not in path.parts)
    recipe = replace(GIT, files=tuple((f"app/{path.relative_to(tree)}", path.read_bytes()) for path in files))

    async def make() -> str:
        engine = Engine()
        try:
            return await ensure(engine, recipe)
        finally:
            await engine.close()

    return asyncio.run(make())


@pytest.fixture
def work(tmp_path: Path, repository: str) -> Trial:
    trial = Trial(root=tmp_path, image=repository, sandbox={"workdir": "/app"})
    trial.experiment_changes = {"collect": ("patch",), "on_system_change": "flag"}
    trial.grader = shell(f"cat $AGENTLAB_PATCH_PATH; {PASS}")
    return trial


async def test_a_patch_leads_from_the_images_commit_to_what_is_there(work: Trial) -> None:
    work.agent = shell("rm gone; echo 4 >> kept; mkdir d; echo new > d/new; echo x > out.o")
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    patch = (work.folders.root / PATCH_FILE).read_text()
    assert [line for line in patch.splitlines() if line.startswith("diff")] == [
        "diff --git a/d/new b/d/new",
        "diff --git a/gone b/gone",
        "diff --git a/kept b/kept",
    ]
    assert "+4\n" in patch
    assert work.log("grader.stdout") == patch
    assert [ref.path for ref in done.files if ref.path == PATCH_FILE] == [PATCH_FILE]


async def test_what_an_agent_did_to_the_repository_changes_no_patch(work: Trial) -> None:
    """It commits its work, and leaves hooks, filters, drivers and a monitor that would all forge a patch."""
    hostile = """
echo 4 >> kept
git -c user.name=n -c user.email=e commit -qam mine
printf '#!/bin/sh\\necho forged > /app/kept\\n' > /app/evil; chmod 755 /app/evil
git config core.fsmonitor /app/evil; git config diff.external /app/evil
git config core.hooksPath /app; cp evil post-index-change
git config filter.f.clean 'echo forged'; git config diff.d.textconv 'echo forged'
printf '* filter=f diff=d\\n' > .gitattributes
git config core.worktree /usr
"""
    work.agent = shell(hostile)
    await work.carry_out()
    patch = (work.folders.root / PATCH_FILE).read_text()
    assert "+4\n" in patch
    assert "+++ b/.gitattributes" in patch
    assert "\n+forged" not in patch


@pytest.mark.parametrize("way", ["upper", "list"])
async def test_files_that_the_repository_has_by_other_names_are_in_the_patch(work: Trial, way: str) -> None:
    """One that the image's repository has, too, with other content; one that it does not have."""
    forge = "echo mine > .git/description; ln .git/description told"
    work.agent = shell(f"{forge}; echo new > .git/new; ln .git/new one; ln one two")
    work.maker = await by_list() if way == "list" else None
    await work.carry_out()
    patch = (work.folders.root / PATCH_FILE).read_text()
    assert [line for line in patch.splitlines() if line.startswith("diff")] == [
        "diff --git a/one b/one",
        "diff --git a/told b/told",
        "diff --git a/two b/two",
    ]
    assert [line for line in patch.splitlines() if line.startswith("+") and "+++" not in line] == [
        "+new",
        "+mine",
        "+new",
    ]


@pytest.mark.parametrize("agent", ["cd /; rm -rf /app", "rm -rf .git gone kept .gitignore"])
async def test_a_repository_that_is_gone_hides_nothing(work: Trial, agent: str) -> None:
    work.agent = shell(agent)
    work.grader = shell(":")  # it may have no folder to start in
    await work.carry_out()
    patch = (work.folders.root / PATCH_FILE).read_text()
    assert patch.count("deleted file mode") == 3


async def test_a_folder_that_is_no_work_tree_has_no_patch_and_that_is_told(work: Trial) -> None:
    work.sandbox = {"workdir": "/home/app"}
    done = await work.carry_out()
    assert done.timing.barrier["patch"] == "there is none: it is no git work tree with a commit"
    assert not (work.folders.root / PATCH_FILE).exists()


async def test_a_patch_of_a_workspace_is_refused(maker: DockerMaker, repository: str) -> None:
    plan = make_sandbox(kind="docker", image=repository)
    checks = await maker.preflight(plan, Demands(collect=("patch",)))
    assert [check.name for check in checks if not check.passed] == ["collect"]


class Noting(Engine):
    """Notes of each removal whether the attempt was judged by then."""

    score = Path()

    def __init__(self) -> None:
        super().__init__()
        self.removed_after: dict[str, bool] = {}

    async def remove(self, container: str) -> None:
        self.removed_after[container] = self.score.exists()
        await super().remove(container)


async def test_nobody_waits_until_what_a_patch_was_made_in_is_removed(work: Trial) -> None:
    """That takes minutes where an agent left many files. It is gone with the attempt's own container."""
    engine = Noting()
    work.agent, work.maker = shell("for n in 1 2 3; do echo $n > new$n; done"), DockerMaker(engine)
    engine.score = work.folders.out / "benchmark_score.json"
    await work.carry_out()
    assert (work.folders.root / PATCH_FILE).read_text().count("new file mode") == 3
    assert len(engine.removed_after) == 2
    assert all(engine.removed_after.values())
