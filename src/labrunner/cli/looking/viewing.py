"""`lab view`: pages over runs, in a browser, until Ctrl-C."""

import asyncio
import getpass
import os
import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import typer

from labrunner.cli import signals
from labrunner.cli.pieces import LogDir, make_app
from labrunner.display.text.saying import say, say_aside
from labrunner.errors import InputError, LabError
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import DEFAULT_RUNS, find_run
from labrunner.store.reading.run_state import read_state
from labrunner.view.web.guard import LOOPBACK
from labrunner.view.web.webserver import EVERYWHERE, Served, serving

LOOK_S: Final = 0.5
LINGER_S: Final = 600.0
"""How long pages that somebody has looked at stay, when nobody does any more and their run is over."""
NICE: Final = 5
app = make_app()

_What = Annotated[
    str | None,
    typer.Argument(metavar="RUN|DIR", help="a run to begin with, or a folder of runs (default: the list)"),
]
_Host = Annotated[
    str, typer.Option(help="the address to listen on; one that others can reach needs a token, and gets one")
]
_Port = Annotated[int | None, typer.Option(min=1, max=65535, help="the port (default: the first free one)")]
_Token = Annotated[
    str | None,
    typer.Option(help="what whoever looks has to know; better as LAB_TOKEN, which others can't see"),
]
_NoOpen = Annotated[bool, typer.Option("--no-open", help="only print the address; open no browser")]


@app.command(help="Look at runs in a browser: read-only, live, nothing is fetched from elsewhere.")
def view(
    what: _What = None,
    host: _Host = "127.0.0.1",
    port: _Port = None,
    token: _Token = None,
    no_open: _NoOpen = False,
    log_dir: LogDir = DEFAULT_RUNS,
) -> None:
    """Serve pages until Ctrl-C."""
    runs_dir, run = find_target(log_dir, what)
    if token is None and host not in LOOPBACK:
        token = secrets.token_urlsafe(24)
    # Nothing is under way that would have to be put in order: Ctrl-C may end it wherever it is.
    signals.leave_at_once()
    path = f"/run/{quote(run.root.name, safe='')}" if run is not None else "/"
    asyncio.run(_serve(runs_dir, path, _Listening(host=host, port=port, token=token), opens=not no_open))


def view_beside(run: str) -> None:
    """Serve the pages of a run that goes on, until it is over and nobody looks: `lab run --view`."""
    signals.leave_at_once()
    paths = RunPaths(Path(run))
    listening = _Listening(host="127.0.0.1", port=None, token=None, until=paths)
    path = f"/run/{quote(paths.root.name, safe='')}"
    try:
        asyncio.run(_serve(paths.root.parent, path, listening, opens=True))
    except LabError as error:
        say_aside(f"the pages of this run are not shown: {error.describe()}")
    signals.leave(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listening:
    """Where to listen, and how long."""

    host: str
    port: int | None
    token: str | None
    until: RunPaths | None = None
    """Until this run is over, and nobody looks; else until Ctrl-C."""


def find_target(log_dir: Path, what: str | None) -> tuple[Path, RunPaths | None]:
    """The folder of runs that somebody means, and the run of it to begin with."""
    if what is None:
        return log_dir, None
    folder = Path(what)
    if folder.is_dir() and not RunPaths(folder).run.exists():
        inner = folder / DEFAULT_RUNS
        return (inner if inner.is_dir() else folder), None
    run = find_run(log_dir, what)
    if not run.run.exists():
        raise InputError("RUN", f"{run.root} has no run.json, so it is not a run's directory")
    return run.root.resolve().parent, RunPaths(run.root.resolve())


async def _serve(runs_dir: Path, path: str, listening: _Listening, *, opens: bool) -> None:
    os.nice(NICE)  # a run that goes on beside comes first
    async with serving(runs_dir, host=listening.host, port=listening.port, token=listening.token) as place:
        say(f"runs of {runs_dir}: {place.address(path)}")
        if place.host in EVERYWHERE:
            say(f"from elsewhere: {replace(place, host=socket.gethostname()).address(path)}")
        if (line := tell_tunnel(place, os.environ)) is not None:
            say(f"from your own machine: {line}")
        elif opens and _has_screen():
            threading.Thread(target=webbrowser.open, args=(place.address(path),), daemon=True).start()
        if listening.until is None:
            say("Ctrl-C ends this.")
        sys.stdout.flush()
        await (asyncio.Event().wait() if listening.until is None else stay(listening.until, place))


async def stay(run: RunPaths, place: Served, linger_s: float = LINGER_S) -> None:
    """Wait until a run is over and nobody looks at it: a page in the background does not, for a while."""
    seen_at: float | None = None
    while True:
        now = time.monotonic()
        if place.feed is not None and place.feed.is_heard:
            seen_at = now
        is_over = await asyncio.to_thread(read_state, run) != "started"
        if is_over and (seen_at is None or now - seen_at > linger_s):
            return
        await asyncio.sleep(LOOK_S)


def tell_tunnel(place: Served, environment: Mapping[str, str]) -> str | None:
    """What to type elsewhere to see the pages there, where this seems to be a machine far away."""
    if place.host not in LOOPBACK or not ({"SSH_CONNECTION", "SSH_TTY"} & environment.keys()):
        return None
    return f"ssh -L {place.port}:localhost:{place.port} {getpass.getuser()}@{socket.gethostname()}"


def _has_screen() -> bool:
    """Whether a browser can show itself: without a screen some would take over the terminal."""
    return sys.platform != "linux" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
