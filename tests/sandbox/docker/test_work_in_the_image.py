"""Work in a folder of the image: judged in a fresh container, with nothing of it lost."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.experiment.run_policy import Keep, KeepPolicy
from labrunner.files.layering.layernote import LAYER
from labrunner.files.layering.layerreading import open_layer
from labrunner.records.completion import Graded
from labrunner.sandbox.docker.attempt.sandbox import DockerSandbox
from labrunner.sandbox.door import Demands
from labrunner.sandbox.execution import ExecCall
from labrunner.view.left.changetelling import ChangeTeller
from labrunner.view.left.layertelling import tell_layer
from tests.kit.builders import make_policy
from tests.kit.docker.plainuser import NOBODY, give_to_nobody, lab_as_plain_user, plain_place
from tests.kit.docker.site import Site
from tests.kit.docker.testimages import WORK_IN_A_VOLUME, WORKBENCH, Images
from tests.kit.docker.trials import FAIL, PASS, Trial, by_list, python, shell
from tests.kit.sandbox.place import sh

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


@pytest.mark.parametrize("way", ["upper", "list"])
async def test_a_fresh_container_has_all_that_was_changed_in_the_image(work: Trial, way: str) -> None:
    work.grader_changes = {"where": "fresh"}
    work.maker = await by_list() if way == "list" else None
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert (done.end.verdict, done.barrier) == ("pass", "fresh_container"), done
    assert seen(work) == await in_place(work)
    assert "linked" in seen(work)
    assert "made/x 4755 0 0 2 981173106" in seen(work)
    assert int(done.timing.barrier["layer_entries"]) > 10


@pytest.mark.parametrize("way", ["upper", "list"])
async def test_links_and_pipes_with_two_names_are_carried_under_both(work: Trial, way: str) -> None:
    work.agent = shell("cd /app; ln -s kept.txt b; ln b c; mkdir d; ln b d/e; mkfifo p; ln p q")
    work.grader = shell(
        f"cd /app; readlink b; readlink c; readlink d/e; test -p p && test -p q && echo pipes; {FAIL}"
    )
    work.grader_changes = {"where": "fresh"}
    work.maker = await by_list() if way == "list" else None
    done = await work.carry_out()
    assert isinstance(done.end, Graded), done
    assert done.end.verdict == "fail"
    assert seen(work) == ["kept.txt", "kept.txt", "kept.txt", "pipes"]


async def test_a_changed_system_is_left_behind_and_the_work_is_not(work: Trial) -> None:
    work.agent = shell("echo forged > /usr/bin/judge; echo mine > /app/changed.txt")
    work.grader = shell(f"cat /usr/bin/judge /app/changed.txt; {PASS}")
    work.experiment_changes = {"on_system_change": "afresh"}
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert (done.end.verdict, done.barrier) == ("pass", "fresh_container"), done
    assert done.end.flags == ("system_changed",)
    assert work.log("grader.stdout") == "honest\nmine\n"


async def test_a_page_lists_what_was_written_and_removed_in_the_image(work: Trial) -> None:
    work.grader = shell(FAIL)  # what failed is kept
    await work.carry_out()
    told = tell_layer(work.folders.root / LAYER, ChangeTeller())
    changes = told["changes"]
    assert isinstance(changes, list)
    found = {change.path: change for change in changes}
    assert told["folder"] == "/app"
    assert (found["gone.txt"].how, found["changed.txt"].how) == ("deleted", "written")
    assert found["changed.txt"].patch == "@@ -1,0 +1,1 @@\n+after"
    assert found["caf\\xe9"].patch == "@@ -1,0 +1,1 @@\n+odd (no newline at the end)"
    assert {found[path].kind for path in ("out", "made/link")} == {"link"}
    assert found["made/pipe"].why_none == "fifo"


async def test_an_agent_that_changed_only_its_work_is_judged_where_it_is(work: Trial) -> None:
    work.experiment_changes = {"on_system_change": "afresh"}
    work.grader = shell(FAIL)  # what failed is kept
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert (done.end.verdict, done.barrier, done.end.flags) == ("fail", "restarted", ())
    [kept] = [ref for ref in done.timing.logs if ref.path == LAYER]
    assert kept.size == (work.folders.root / LAYER).stat().st_size


@pytest.mark.parametrize(
    ("keep", "change", "is_taken"),
    [("always", "flag", True), ("never", "flag", False), ("never", "afresh", False)],
)
async def test_a_layer_is_taken_only_where_somebody_wants_it(
    work: Trial, keep: Keep, change: str, is_taken: bool
) -> None:
    policy = make_policy(keep=KeepPolicy(workspace=keep, logs="always"))
    work.experiment_changes = {"on_system_change": change, "policy": policy}
    done = await work.carry_out()
    assert (work.folders.root / LAYER).exists() == is_taken
    assert ("layer_entries" in done.timing.barrier) == is_taken


async def test_a_link_of_the_image_leads_no_work_into_its_system(work: Trial) -> None:
    """The image has a link `way` to the programs; the agent makes a folder of it, with a program inside."""
    work.agent = shell(
        "cd /app; rm way; mkdir way; echo forged > way/judge; rm -rf back; ln -s /usr/bin back"
    )
    work.grader = shell(f"cat /usr/bin/judge /app/way/judge /app/back/judge; ls -l /app; {PASS}")
    work.grader_changes = {"where": "fresh"}
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert done.end.verdict == "pass", done
    assert work.log("grader.stdout").startswith("honest\nforged\nhonest\n")


async def test_a_working_directory_behind_links_is_the_one_that_they_lead_to(work: Trial) -> None:
    work.sandbox = {"workdir": "/short/app"}
    work.grader_changes = {"where": "fresh"}
    work.agent = shell("pwd -P; rm gone.txt; echo mine > changed.txt")
    work.grader = shell(f"pwd -P; ls -d /short; ls; cat changed.txt; {PASS}")
    assert isinstance((await work.carry_out()).end, Graded)
    assert "gone.txt" not in work.log("grader.stdout")
    assert work.log("grader.stdout").startswith("/app\n/short\n")
    assert work.log("grader.stdout").endswith("mine\n")


ANEW = "rm -rf /app; mkdir /app; echo 1 > /app/one"


@pytest.mark.parametrize(
    ("way", "agent"),
    [("upper", "rm -rf /app; ln -s /usr/bin /app"), ("upper", ANEW), ("list", "rm -rf /app"), ("list", ANEW)],
)
async def test_a_working_directory_that_is_gone_is_gone(work: Trial, way: str, agent: str) -> None:
    work.agent, work.grader_changes = shell(f"cd /; {agent}"), {"where": "fresh"}
    work.maker = await by_list() if way == "list" else None
    work.grader = shell(f"ls -A /app; cat /usr/bin/judge; {PASS}")
    done = await work.carry_out()
    if agent == ANEW:
        assert work.log("grader.stdout") == "one\nhonest\n"
    else:  # as in place: there is no folder to start a grader in
        assert done.grader is not None
        assert done.grader.exit_status == 126, done


@pytest.mark.parametrize("way", ["upper", "list"])
async def test_another_name_of_a_file_of_the_image_is_the_same_file(work: Trial, way: str) -> None:
    """An engine's list has the new names alone."""
    work.agent = shell("cd /app; ln kept.txt b; mkdir d; ln kept.txt d/c; ln folder/inner.txt inner")
    same = "[ kept.txt -ef b ] && [ b -ef d/c ] && [ folder/inner.txt -ef inner ]"
    work.grader = shell(f"cd /app; {same} && cat b inner; {PASS}")
    work.grader_changes = {"where": "fresh"}
    work.maker = await by_list() if way == "list" else None
    await work.carry_out()
    assert seen(work) == ["as it was", "inner"]


@pytest.mark.parametrize("way", ["upper", "list"])
async def test_devices_and_sockets_are_left_out_and_told(work: Trial, way: str) -> None:
    work.maker = await by_list() if way == "list" else None
    plant = "import socket; socket.socket(socket.AF_UNIX).bind('/app/socket')"
    work.agent = python(f"{plant}; open('/app/plain', 'w').write('x')")
    work.grader_changes = {"where": "fresh"}
    work.grader = shell(f"ls /app; {PASS}")
    done = await work.carry_out()
    assert done.timing.barrier["layer_left_out"] == "sockets 1"
    assert "plain" in work.log("grader.stdout")
    assert "socket" not in work.log("grader.stdout")


@pytest.mark.parametrize("way", ["upper", "list"])
async def test_more_than_the_disk_limit_is_the_agents_failure(work: Trial, way: str) -> None:
    work.sandbox |= {"disk_mb": 16}
    work.maker = await by_list() if way == "list" else None
    work.grader_changes = {"where": "fresh"}
    work.agent = shell("i=0; while [ $i -lt 40 ]; do truncate -s 1M /app/hollow$i; i=$((i+1)); done")
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert (done.end.verdict, done.end.flags) == ("fail", ("not_graded",))
    assert "was changed by more than its limits: 32 MiB" in str(done.timing.barrier["layer"])
    assert not list(work.folders.root.glob("layer*"))


async def test_an_agent_that_is_ended_for_its_disk_is_judged_as_it_stands(work: Trial) -> None:
    work.sandbox |= {"disk_mb": 16}
    work.grader_changes = {"where": "fresh"}
    work.agent = shell("head -c 20m /dev/urandom > /app/large; sleep 60")
    work.grader = shell(f"wc -c < /app/large; {PASS}")
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert (done.end.verdict, done.end.ended_by, done.end.flags) == ("pass", "disk", ())
    assert int(work.log("grader.stdout")) > 16 << 20


async def test_an_agent_that_broke_the_graders_tools_is_found_out_by_its_work_elsewhere(work: Trial) -> None:
    """The grader fails where the agent worked, and judges its work in a fresh container."""
    work.experiment_changes = {"on_system_change": "flag"}
    work.agent = shell("echo mine > /app/changed.txt; echo 'exit 7' > /usr/bin/tool; chmod 755 /usr/bin/tool")
    work.grader = shell(f"[ ! -e /usr/bin/tool ] && grep -q mine /app/changed.txt && {PASS}")
    done = await work.carry_out()
    assert isinstance(done.end, Graded), done
    assert (done.end.verdict, done.end.flags) == ("fail", ("not_graded", "system_changed"))


async def test_work_that_is_too_large_to_be_kept_is_judged_in_place(work: Trial) -> None:
    work.sandbox |= {"disk_mb": 16}
    work.experiment_changes = {"on_system_change": "flag"}
    work.agent = shell("i=0; while [ $i -lt 40 ]; do truncate -s 1M /app/hollow$i; i=$((i+1)); done")
    work.grader = shell(f"ls /app | wc -l; {FAIL}")
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert (done.end.verdict, done.end.flags) == ("fail", ())
    assert "limits" in str(done.timing.barrier["layer"])


async def test_what_an_agent_that_does_nothing_left_is_nothing(work: Trial) -> None:
    work.agent, work.grader = shell(":"), shell(FAIL)
    work.experiment_changes = {"on_system_change": "afresh"}
    assert (await work.carry_out()).timing.left_nothing
    busy = replace(work, root=work.root.with_name("busy"), agent=shell("touch /app/kept.txt"))
    assert not (await busy.carry_out()).timing.left_nothing


async def test_a_layer_that_is_kept_has_no_secrets(work: Trial) -> None:
    work.secrets = {"KEY": "tell-nobody-about-it"}
    work.agent_changes = {"secrets": ("KEY",)}
    work.agent = shell('echo "a $KEY b" > /app/note; mkdir "/app/$KEY"; ln -s "/$KEY" /app/link')
    work.grader_changes = {"where": "fresh"}
    work.grader = shell(f"wc -c < /app/note; cat /app/note > /agentlab/out/seen; {FAIL}")
    done = await work.carry_out()
    with open_layer(work.folders.root / LAYER) as reader:
        found = {m.name: (m.linkname, c.read() if c else b"") for m, c in reader.entries()}
    assert found["note"][1] == b"a [masked:KEY]******** b\n"
    assert found["link"][0] == "/[masked:KEY]*********"[: len("/tell-nobody-about-it")]
    assert not [name for name in found if "nobody" in name]
    assert done.timing.masked[LAYER] == 3
    assert int(work.log("grader.stdout")) == len("a tell-nobody-about-it b\n")


async def test_many_files_are_carried(work: Trial) -> None:
    await carry_many(work, 3_000)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["upper", "list"])
async def test_a_hundred_thousand_files_are_carried(work: Trial, way: str) -> None:
    work.maker = await by_list() if way == "list" else None
    await carry_many(work, 100_000)


async def carry_many(work: Trial, count: int) -> None:
    make = f"""
import os
for n in range({count}):
    if n % 500 == 0:
        os.makedirs(f"/app/many/{{n}}")
    with open(f"/app/many/{{n - n % 500}}/{{n}}", "w") as file:
        file.write(str(n))
"""
    look = (
        "import os; print(sum(int(open(f'{d}/{f}').read()) for d, _, fs in os.walk('/app/many') for f in fs))"
    )
    work.agent, work.agent_changes = python(make), {"timeout_s": 200}
    work.grader, work.grader_changes = (
        shell(f'python3 -I -c "{look}"; {PASS}'),
        {"where": "fresh", "timeout_s": 200},
    )
    done = await work.carry_out()
    assert isinstance(done.end, Graded)
    assert int(work.log("grader.stdout")) == sum(range(count))
    assert done.timing.barrier["layer_entries"] == count + count // 500 + 2


async def test_work_in_a_volume_of_the_image_is_carried_whole(tmp_path: Path, images: Images) -> None:
    image = await images(WORK_IN_A_VOLUME)
    trial = Trial(root=tmp_path, image=image, sandbox={"workdir": "/app"}, grader_changes={"where": "fresh"})
    trial.agent = shell("rm /app/data/old; echo new > /app/data/new; echo beside > /app/beside")
    trial.grader = shell(f"find /app -type f | sort; cat /app/data/new; {PASS}")
    done = await trial.carry_out()
    assert isinstance(done.end, Graded)
    assert trial.log("grader.stdout") == "/app/beside\n/app/data/kept\n/app/data/new\nnew\n"


async def test_python_scorers_find_the_work_in_a_fresh_container(site: Site, workbench: str) -> None:
    spec = replace(site, image=workbench).spec(
        demands=Demands(any_user=True, fresh_grader=True), workdir="/app"
    )
    async with site.maker.open(spec) as sandbox:
        assert isinstance(sandbox, DockerSandbox)
        await sandbox.begin(None, sh(":"))
        await sandbox.exec(ExecCall(argv=("/bin/sh", "-c", "echo mine > changed.txt; rm gone.txt")))
        await sandbox.end_all()
        seen = await sandbox.exec(ExecCall(argv=("/bin/sh", "-c", "cat changed.txt; ls")))
    assert seen.stdout.startswith(b"mine\n")
    assert b"gone.txt" not in seen.stdout


PLAIN = """
name: plain
tasks: [{{id: a, input: x}}]
agent: {{command: 'rm gone.txt; echo mine > changed.txt; mkdir made; ln changed.txt made/same'}}
grader:
  where: fresh
  command: >-
    [ -e gone.txt ] || [ ! made/same -ef changed.txt ] || v=pass;
    echo "{{\\"verdict\\": \\"$${{v:-fail}}\\"}}" > $$AGENTLAB_BENCHMARK_SCORE_PATH
sandbox: {{kind: docker, image: "{image}", workdir: /app, memory_mb: 96, limits: best_effort}}
keep: {{workspace: always}}
min_free_disk_gb: 0
"""


@pytest.mark.root
def test_a_plain_user_carries_work_by_the_engines_word(workbench: str) -> None:
    with plain_place() as place:
        (place / "work/experiment.yaml").write_text(PLAIN.format(image=workbench))
        give_to_nobody(place / "work")
        done = lab_as_plain_user(place, "run", "--run-id", "x", timeout_s=100)
        again = lab_as_plain_user(place, "regrade", "x", "--run-id", "y", timeout_s=100)
        rows = [
            json.loads(path.read_text())
            for path in sorted((place / "work/.lab/runs").glob("*/facts/trials.jsonl"))
        ]
        layer = next((place / "work/.lab/runs/x").rglob(LAYER))
        assert layer.stat().st_uid == NOBODY
    assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    assert [(row["verdict"], row["barrier"]) for row in rows] == [("pass", "fresh_container")] * 2


@pytest.mark.parametrize(("way", "left"), [("upper", "stays\n"), ("list", "caf?\nstays\n")])
async def test_files_of_any_name_are_gone(work: Trial, way: str, left: str) -> None:
    """An engine's list can't name what is no text: that stays, and is told."""
    work.maker = await by_list() if way == "list" else None
    work.agent = python(
        "import os; [os.unlink(b'/app/odd/' + n) for n in os.listdir(b'/app/odd') if n != b'stays']"
    )
    work.grader, work.grader_changes = shell(f"ls /app/odd; {PASS}"), {"where": "fresh"}
    done = await work.carry_out()
    assert work.log("grader.stdout") == left
    told = "removed names that are no text 1"
    assert done.timing.barrier.get("layer_left_out") == (told if way == "list" else None)


@pytest.mark.parametrize("way", ["upper", "list"])
async def test_a_tree_too_deep_for_any_path_is_judged_all_the_same(work: Trial, way: str) -> None:
    work.maker = await by_list() if way == "list" else None
    dig = "import os; os.chdir('/app'); [(os.mkdir('d' * 200), os.chdir('d' * 200)) for _ in range(100)]"
    work.agent = python(f"open('/app/mine', 'w').write('x'); {dig}")
    work.grader, work.grader_changes = shell(f"ls /app/mine; {PASS}"), {"where": "fresh"}
    done = await work.carry_out()
    assert isinstance(done.end, Graded), done.end
    if done.end.verdict == "pass":
        assert work.log("grader.stdout") == "/app/mine\n"
    else:  # what an engine can't read is its agent's doing
        assert done.end.flags == ("not_graded",)
        assert "the engine could not read it" in str(done.timing.barrier["layer"])
