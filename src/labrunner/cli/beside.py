"""Pages beside a run: `lab view` as a process of its own, so that looking at a run never slows it.

Rule: the run does not depend on it. It ends by itself: when the run is over and nobody looks any more.
"""

import os
import subprocess
import sys
from contextlib import suppress

from labrunner.runner.sitting.sitting import Live, Watch
from labrunner.store.layout import RunPaths

_CALL = "import sys; from labrunner.cli.looking.viewing import view_beside; view_beside(sys.argv[1])"


def with_pages(watch: Watch, *, opens: bool) -> Watch:
    """What watches a run, and opens its pages first where that is asked for."""
    if not opens:
        return watch

    async def watch_beside(live: Live) -> None:
        open_pages(live.plan.paths)
        await watch(live)

    return watch_beside


def open_pages(paths: RunPaths) -> None:
    """Serve a run's pages; the address goes to standard error, which is for people."""
    with suppress(OSError):  # no more processes, no memory: the run matters more
        subprocess.Popen(
            [sys.executable, "-P", "-c", _CALL, str(paths.root.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # a Ctrl-C is for the run: whoever looks at it sees how it ends
        )
