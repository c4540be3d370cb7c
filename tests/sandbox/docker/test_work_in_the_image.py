"""Work in a folder of the image: judged in a fresh container, with nothing of it lost."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.experiment.resolved import Keep, KeepPolicy
from labrunner.files.layering.layernote import LAYER
from labrunner.records.completion import Graded
from labrunner.sandbox.docker.maker import DockerMaker
from tests.kit.builders import make_policy
from tests.kit.docker.testimages import WORKBENCH, Images
from tests.kit.docker.trials import FAIL, PASS, Trial, shell

CHANGES = """
set -e
cd /app
echo after > changed.txt
rm gone.txt
rm -rf emptied; mkdir emptied; echo new > emptied/new.txt
rm -rf turned; echo 'now a file' > turned
mkdir made; echo x > made/x; ln made/x made/y; ln -s ../changed.txt made/link; ln -s /etc/passwd out
chmod 4755 made/x; touch -d '2001-02-03 04:05:06' made/x
chown 1234:1234 made; mkfifo made/pipe
printf 'odd' > "$(printf 'caf\\351')"
"""
LOOK = """
cd /app
find . | sort
cat changed.txt turned emptied/new.txt kept.txt folder/inner.txt
stat -c '%n %a %u %g %h %Y' made made/x made/y
readlink made/link; readlink out
test made/x -ef made/y && echo linked
cat caf*
"""


@pytest.fixture(scope="session")
def workbench(images: Images) -> str:
    return asyncio.run(images(WORKBENCH))


@pytest.fixture
def work(tmp_path: Path, workbench: str) -> Trial:
    """A trial whose agent works in a folder of its image, and whose grader tells what it finds there."""
    trial = Trial(root=tmp_path / "fresh", image=workbench, sandbox={"workdir": "/app"}, agent=shell(CHANGES))
    trial.grader = shell(f"({LOOK}) 2>&1; {PASS}")
    return trial


def seen(trial: Trial) -> list[str]:
    told = (trial.folders.logs / "grader.stdout").read_bytes().decode(errors="surrogateescape")
    return re.sub(r"made (.*) \d+\n", r"made \1 TIME\n", told).splitlines()


async def in_place(work: Trial) -> list[str]:
    """The same, judged where the agent worked."""
    changes = {"on_system_change": "flag"}
    same = replace(work, root=work.root.with_name("same"), grader_changes={}, experiment_changes=changes)
    done = await same.carry_out()
    assert done.barrier == "restarted"
    return seen(same)


async def by_list(work: Trial) -> DockerMaker:
    """Makes containers on an engine whose own folders do not tell."""
    maker = DockerMaker()
    maker._facts = replace(await maker.engine.facts(), remaps_users=True)
    return maker


@pytest.mark.parametrize("way", ["upper", "list"])
async def test_a_fresh_container_has_all_that_was_changed_in_the_image(work: Trial, way: str) -> None:
    work.grader_changes = {"where": "fresh"}
    work.maker = await by_list(work) if way == "list" else None
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert (done.end.verdict, done.barrier) == ("pass", "fresh_container"), done
    assert seen(work) == await in_place(work)
    assert "linked" in seen(work)
    assert "made/x 4755 0 0 2 981173106" in seen(work)
    assert int(done.timing.barrier["layer_entries"]) > 10


async def test_a_changed_system_is_left_behind_and_the_work_is_not(work: Trial) -> None:
    work.agent = shell("echo forged > /usr/bin/judge; echo mine > /app/changed.txt")
    work.grader = shell(f"cat /usr/bin/judge /app/changed.txt; {PASS}")
    work.experiment_changes = {"on_system_change": "afresh"}
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert (done.end.verdict, done.barrier) == ("pass", "fresh_container"), done
    assert done.end.flags == ("system_changed",)
    assert work.log("grader.stdout") == "honest\nmine\n"


async def test_an_agent_that_changed_only_its_work_is_judged_where_it_is(work: Trial) -> None:
    work.experiment_changes = {"on_system_change": "afresh"}
    work.grader = shell(FAIL)  # what failed is kept
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert (done.end.verdict, done.barrier, done.end.flags) == ("fail", "restarted", ())
    [kept] = [ref for ref in done.timing.logs if ref.path == LAYER]
    assert kept.size == (work.folders.root / LAYER).stat().st_size


@pytest.mark.parametrize(("keep", "is_taken"), [("always", True), ("never", False)])
async def test_a_layer_is_taken_only_where_somebody_wants_it(work: Trial, keep: Keep, is_taken: bool) -> None:
    policy = make_policy(keep=KeepPolicy(workspace=keep, logs="always"))
    work.experiment_changes = {"on_system_change": "flag", "policy": policy}
    done = await work.carry_out()
    assert (work.folders.root / LAYER).exists() == is_taken
    assert ("layer_entries" in done.timing.barrier) == is_taken
