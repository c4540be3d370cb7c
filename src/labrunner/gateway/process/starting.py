"""Starting a gateway's process: a session of its own, which inherits only where modules lie."""

import os
import sys
from pathlib import Path
from typing import Final

from labrunner.files.detached import spawn_detached
from labrunner.gateway.process.place import GatewayPlace

_START: Final = "from labrunner.gateway.process.daemon import main; main()"
_KEPT: Final = frozenset(
    {
        "PATH",
        "HOME",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "PYTHONHOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
    }
)
"""Variables that say where libraries are and how the world is reached; no others: they may hold keys."""


def start_daemon(place: GatewayPlace) -> int:
    """Start the process; whether it is the run's gateway is told by whoever answers. Raises OSError."""
    place.make()
    env = {name: value for name, value in os.environ.items() if name.upper() in _KEPT}
    env["PYTHONPATH"] = os.pathsep.join(str(Path(each).resolve()) for each in sys.path)
    argv = [sys.executable, "-X", "utf8", "-c", _START, str(place.folder)]
    log = (str(place.log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, *log),
        (os.POSIX_SPAWN_OPEN, 2, *log),
    ]
    return spawn_detached(argv, env, streams)
