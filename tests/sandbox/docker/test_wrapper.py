"""The wrapper in real containers: every shell, every user, every way out."""

import asyncio
import signal
from pathlib import Path

import pytest

from labrunner.errors import SandboxFailed, SetupFailed
from labrunner.sandbox.docker.attempt.patience import ContainerPatience
from labrunner.sandbox.docker.maker import DockerMaker
from labrunner.sandbox.door import Demands, PhaseEnd
from tests.kit.docker.site import GRADE, Site
from tests.kit.docker.testimages import APP_USER, ASH, BASH, DASH, NO_MV, NO_SHELL, Images, Recipe
from tests.kit.sandbox.place import phase, sh

SHELLS = [ASH, DASH, BASH]


def names(recipe: Recipe) -> str:
    return recipe.name


@pytest.mark.parametrize("recipe", SHELLS, ids=names)
async def test_setup_agent_and_grader_run_in_one_container(
    images: Images, site: Site, recipe: Recipe
) -> None:
    site.image = await images(recipe)
    spec = site.spec()
    async with site.maker.open(spec) as sandbox:
        run = await sandbox.run_agent(sh("echo 1 > one", name="setup"), sh("cat one; echo 2 > two; exit 3"))
        (spec.folders.grader / "hidden").write_text("secret")
        end = await sandbox.run_grader(sh(f"cat one two /agentlab/grader/hidden; {GRADE}", name="grader"))
        assert len(await site.containers()) == 1
    assert run.setup is not None
    assert run.agent is not None
    assert (run.setup.exit_status, run.agent.exit_status, end.exit_status) == (0, 3, 0)
    assert (spec.folders.logs / "grader.stdout").read_text() == "1\n2\nsecret"
    assert sandbox.barrier == "restarted"


@pytest.mark.parametrize("recipe", SHELLS, ids=names)
async def test_values_arrive_as_they_are_in_every_shell(images: Images, site: Site, recipe: Recipe) -> None:
    odd = 'it\'s "$HOME" `id` \\n \\ \t|;&<>*?[]{}~#\n\nüß end NONCE'
    site.image = await images(recipe)
    spec = site.spec()
    show = 'printf "%s" "$ODD"; printf "%s" "$1"'
    env = {"PATH": "/bin:/usr/bin", "ODD": odd}
    async with site.maker.open(spec) as sandbox:
        await sandbox.run_agent(None, phase("/bin/sh", "-c", show, "sh", odd, env=env))
        grader = phase("/bin/sh", "-c", show, "sh", odd, env=env, name="grader")
        await sandbox.run_grader(grader)
    assert (spec.folders.logs / "agent.stdout").read_text() == odd * 2
    assert (spec.folders.logs / "grader.stdout").read_text() == odd * 2


@pytest.mark.parametrize("recipe", SHELLS, ids=names)
async def test_a_phase_that_takes_too_long_is_ended_from_inside(
    images: Images, site: Site, recipe: Recipe
) -> None:
    site.image = await images(recipe)
    spec = site.spec()
    async with site.maker.open(spec) as sandbox:
        run = await sandbox.run_agent(None, sh("(sleep 300 &); sleep 300", timeout_s=1))
        end = await sandbox.run_grader(sh("sleep 300", name="grader", timeout_s=1))
    late = PhaseEnd(exit_status=None, timed_out=True)
    assert run.agent is not None
    for found in (run.agent, end):
        assert (found.exit_status, found.timed_out) == (late.exit_status, late.timed_out)
        assert 0.9 < found.seconds < 4


@pytest.mark.parametrize("recipe", [ASH, DASH], ids=["su", "setpriv"])
@pytest.mark.parametrize("user", ["app", "1234", "app:app"])
async def test_a_phase_runs_as_the_user_that_was_asked_for(
    images: Images, site: Site, recipe: Recipe, user: str
) -> None:
    site.image = await images(recipe)
    spec = site.spec(demands=Demands(agent_user=user, grader_user="root"))
    look = 'id -u; id -g; echo "$HOME"; touch mine "$HOME/x" "$TMPDIR/x"; exit 7'
    async with site.maker.open(spec) as sandbox:
        run = await sandbox.run_agent(None, sh(look, user=user))
        end = await sandbox.run_grader(sh(f"id -u; {GRADE}", name="grader", user="root"))
    assert run.agent is not None
    assert (run.agent.exit_status, end.exit_status) == (7, 0)
    told = (spec.folders.logs / "agent.stdout").read_text()
    assert told == "1234\n1234\n/agentlab/scratch/agent/home\n"
    assert (spec.folders.logs / "grader.stdout").read_text() == "0\n"
    assert sandbox.barrier == "separate_user"


async def test_an_images_own_user_runs_the_phases_and_its_files_are_ours_afterwards(
    images: Images, site: Site
) -> None:
    site.image = await images(APP_USER)
    spec = site.spec()
    async with site.maker.open(spec) as sandbox:
        run = await sandbox.run_agent(None, sh("id -u; umask 077; mkdir deep; echo x > deep/file"))
        assert run.agent is not None
        assert run.agent.exit_status == 0, (spec.folders.logs / "agent.stderr").read_text()
        await sandbox.run_grader(sh(f"id -u; cat deep/file; {GRADE}", name="grader"))
    assert (spec.folders.logs / "agent.stdout").read_text() == "1234\n"
    assert (spec.folders.logs / "grader.stdout").read_text() == "1234\nx\n"
    ours = spec.folders.root.stat().st_uid
    for path in [spec.folders.workspace, *spec.folders.workspace.rglob("*"), *spec.folders.out.rglob("*")]:
        assert path.lstat().st_uid == ours, path


async def test_an_images_environment_is_kept_but_not_what_could_turn_a_grader(
    images: Images, site: Site
) -> None:
    site.image = await images(APP_USER)
    spec = site.spec()
    show = f'echo "$FROM_IMAGE ${{PYTHONPATH-unset}}"; {GRADE}'
    async with site.maker.open(spec) as sandbox:
        await sandbox.run_agent(None, sh(show))
        await sandbox.run_grader(sh(show, name="grader"))
    assert (spec.folders.logs / "agent.stdout").read_text() == "yes /evil\n"
    assert (spec.folders.logs / "grader.stdout").read_text() == "yes unset\n"


async def test_nobody_but_the_wrapper_can_touch_notes_and_logs(images: Images, site: Site) -> None:
    site.image = await images(APP_USER)
    spec = site.spec()
    spec.folders.logs.chmod(0o777)
    places = ("ctl/phase", "logs/x", "x", "in/x", "grader/x")
    try_all = "; ".join(f"touch /agentlab/{place} && echo {place}" for place in places)
    try_all += "; mv /agentlab /moved && echo moved"
    async with site.maker.open(spec) as sandbox:
        run = await sandbox.run_agent(None, sh(try_all))
    assert run.agent is not None
    assert (spec.folders.logs / "agent.stdout").read_text() == ""


async def test_a_missing_tool_is_named(images: Images, site: Site) -> None:
    site.image = await images(NO_MV)
    with pytest.raises(SetupFailed, match="lacks the tool: mv"):
        async with site.maker.open(site.spec()) as sandbox:
            await sandbox.run_agent(None, sh(":"))


async def test_an_image_without_a_shell_is_told(images: Images, site: Site) -> None:
    site.image = await images(NO_SHELL)
    with pytest.raises(SetupFailed, match="no /bin/sh"):
        async with site.maker.open(site.spec()) as sandbox:
            await sandbox.run_agent(None, sh(":"))


async def test_a_user_that_is_not_there_is_named(site: Site) -> None:
    with pytest.raises(SetupFailed, match="no user nobody-here"):
        async with site.maker.open(site.spec(demands=Demands(agent_user="nobody-here"))) as sandbox:
            await sandbox.run_agent(None, sh(":", user="nobody-here"))


async def test_setup_that_fails_ends_the_container(site: Site) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        run = await sandbox.run_agent(sh("exit 9", name="setup"), sh(":"))
        state = await site.maker.engine.look(
            (await site.maker.engine.list("labrunner.place=" + site.run.place))[0].id
        )
    assert run.setup is not None
    assert (run.setup.exit_status, run.agent) == (9, None)
    assert state.exit_code == 80


@pytest.mark.parametrize(
    ("script", "code"),
    [(GRADE, 0), ("exit 5", 82), ("sleep 99", 83), (":", 84)],
    ids=["ok", "fails", "late", "mute"],
)
async def test_the_exit_code_says_how_grading_went(site: Site, script: str, code: int) -> None:
    async with site.maker.open(site.spec()) as sandbox:
        await sandbox.run_agent(None, sh(":"))
        await sandbox.run_grader(sh(script, name="grader", timeout_s=1))
        (container,) = await site.maker.engine.list(f"labrunner.place={site.run.place}")
        state = await site.maker.engine.look(container.id)
    assert (state.is_alive, state.exit_code) == (False, code)


async def test_a_grader_is_tried_again_in_the_same_container(site: Site) -> None:
    spec = site.spec()
    async with site.maker.open(spec) as sandbox:
        await sandbox.run_agent(None, sh("echo ready > file"))
        again = sh("(sleep 300 &); cat file; exit 1", name="grader", may_repeat=True)
        first = await sandbox.run_grader(again)
        (container,) = await site.maker.engine.list(f"labrunner.place={site.run.place}")
        state = await site.maker.engine.look(container.id)
        second = await sandbox.run_grader(sh(f"cat file; ls /proc; {GRADE}", name="grader"))
    assert state.is_alive
    assert (first.exit_status, second.exit_status) == (1, 0)


async def test_containers_expire_when_nobody_comes_back(site: Site) -> None:
    hasty = DockerMaker(expiry_s=1, spread_s=1)
    async with hasty.open(site.spec(demands=Demands(agent_user="app"))) as sandbox:
        await sandbox.run_agent(None, sh(":", user="app"))
        (container,) = await hasty.engine.list(f"labrunner.place={site.run.place}")
        async with asyncio.timeout(20):
            while (state := await hasty.engine.look(container.id)).is_alive:
                await asyncio.sleep(0.1)
    await hasty.close()
    assert state.exit_code == 86


async def test_a_plan_that_is_too_long_is_refused(site: Site) -> None:
    with pytest.raises(SandboxFailed, match="more than 65536"):
        async with site.maker.open(site.spec()) as sandbox:
            await sandbox.run_agent(None, phase("echo", "x" * 70_000))


def test_the_wrapper_is_small_enough_to_be_read(tmp_path: Path) -> None:
    import labrunner.sandbox.guest as guest

    script = (Path(guest.__file__).parent / "wrapper.sh").read_text()
    assert len(script.splitlines()) < 300
    assert max(len(line) for line in script.splitlines()) <= 120


@pytest.mark.parametrize("recipe", SHELLS, ids=names)
async def test_no_signal_ends_the_wrapper_and_none_is_ignored_for_the_agent(
    images: Images, site: Site, recipe: Recipe
) -> None:
    site.image = await images(recipe)
    spec = site.spec()
    everything = "for s in HUP INT QUIT USR1 USR2 TERM ALRM STOP KILL; do kill -$s 1; done; sleep 0.2"
    async with site.maker.open(spec) as sandbox:
        run = await sandbox.run_agent(None, sh(f"grep SigIgn /proc/self/status; {everything}; kill -INT $$"))
    assert run.agent is not None
    assert run.agent.exit_status == 130
    ignored = int((spec.folders.logs / "agent.stdout").read_text().split()[1], 16)
    # Others may be ignored by whoever started the engine, and no shell can take that back.
    sent = (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGTERM,
        signal.SIGALRM,
    )
    assert [number.name for number in sent if ignored >> (number - 1) & 1] == []


async def test_the_engines_own_process_list_serves_where_the_hosts_can_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An engine on another machine: its processes are not in our /proc.
    monkeypatch.setattr(
        "labrunner.sandbox.docker.engine.hostview.list_processes", lambda container, first: None
    )
    async with site.maker.open(site.spec(demands=Demands(agent_user="app"))) as sandbox:
        run = await sandbox.run_agent(None, sh("(sleep 300 &) ; exit 5", user="app"))
        end = await sandbox.run_grader(sh(GRADE, name="grader"))
    assert run.agent is not None
    assert (run.agent.exit_status, end.exit_status) == (5, 0)
    assert run.facts["processes"] in {1, 3}


async def test_a_process_that_is_left_is_never_graded_with(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labrunner.sandbox.docker.engine import hostview
    from labrunner.sandbox.docker.engine.replies import Process

    really = hostview.list_processes

    def with_intruder(container: str, first: int) -> tuple[Process, ...] | None:
        found = really(container, first)
        return (
            None if found is None else (*found, Process(pid=1, parent=first, is_dead=False, command="evil"))
        )

    # A process that no agent can leave: the view of the host is what is lied about.
    monkeypatch.setattr("labrunner.sandbox.docker.engine.hostview.list_processes", with_intruder)
    hasty = DockerMaker(site.maker.engine, patience=ContainerPatience(proof_s=0.2))
    async with hasty.open(site.spec(demands=Demands(agent_user="app"))) as sandbox:
        run = await sandbox.run_agent(None, sh("exit 5", user="app"))
        (container,) = await site.maker.engine.list(f"labrunner.place={site.run.place}")
        state = await site.maker.engine.look(container.id)
        end = await sandbox.run_grader(sh(GRADE, name="grader"))
    assert run.agent is not None
    assert (run.agent.exit_status, state.is_alive, end.exit_status) == (5, False, 0)
