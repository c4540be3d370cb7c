"""`lab run --view`: pages beside a run, in a process of their own, which ends by itself."""

import asyncio
import re
import signal
import subprocess
from pathlib import Path

import aiohttp

from labrunner.cli.looking.viewing import stay
from labrunner.store.rows.lock import acquire
from labrunner.view.web.webserver import serving
from tests.kit.cli.calling import LAB, environment, lab, write_experiment
from tests.kit.made_runs import Told, make_grid, write_run


def test_a_run_tells_where_its_pages_are_and_leaves_nothing_behind_where_nobody_looked(
    tmp_path: Path,
) -> None:
    folder = write_experiment(tmp_path / "e")
    done = subprocess.run(
        [LAB, "run", "--view", "--json"],
        cwd=folder,
        env=environment(DISPLAY="", SSH_CONNECTION="1 2 3 4"),
        capture_output=True,
        text=True,
        timeout=100,
    )
    # The pages' process has standard error, too: it was read to its end, so they are gone.
    assert done.returncode == 0, done.stderr
    address = re.search(r"http://127\.0\.0\.1:(\d+)/run/\S+", done.stderr)
    assert address is not None
    assert f"ssh -L {address[1]}:localhost:{address[1]} " in done.stderr
    assert "http://" not in done.stdout
    again = lab("continue", "last", "--view", cwd=folder)
    assert (again.code, "http://" in again.err) == (0, False)  # nothing to do, so nothing to look at


def test_a_run_that_goes_on_is_tried_again_or_graded_again_has_pages_too(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", tasks=2, extra="keep: {workspace: always}\n")
    killed = lab("run", "--run-id", "one", cwd=folder, env={"LAB_DIE_AT": "commit.line_synced:1"})
    assert killed.code == -signal.SIGKILL
    commands = ["continue", "regrade", "retry"]
    for command in commands:
        if command == "retry":
            (folder / "agent" / "new").touch()  # so that it has something to do
        done = lab(command, "one", "--view", cwd=folder, env={"DISPLAY": ""})
        assert done.code == 0, done.err
        assert len(re.findall(r"http://127\.0\.0\.1:\d+/run/\S+", done.err)) == 1, command


async def test_pages_stay_while_the_run_goes_on_or_somebody_looks(tmp_path: Path) -> None:
    paths = write_run(tmp_path, make_grid(), lambda _: Told(), run_id="live", status="started")
    async with asyncio.timeout(60), serving(tmp_path) as place, aiohttp.ClientSession() as session:
        staying = asyncio.ensure_future(stay(paths, place, linger_s=0.0))
        with acquire(paths):
            assert await is_there(staying)
            stream = await session.get(f"{place.address('/api/changes')}")
            await stream.content.readline()
        assert await is_there(staying)  # its run is over, but a page listens
        stream.close()
        await staying


async def is_there(staying: "asyncio.Future[None]") -> bool:
    done, _ = await asyncio.wait([staying], timeout=1.5)
    return not done
