"""`lab` as a plain user who may reach the engine's socket, when tests are run by root.

A plain user can't read root's interpreter or this repository, so it gets a mount namespace in which both are
bound to a place that it can; and the socket, with the group that may use it.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

REPO = Path(__file__).parents[3]
NOBODY = 65534
MAIN = "from labrunner.cli.main import main; main()"
ENTER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$5/base"; mount --bind "$2" "$5/site"
mount --bind "$3" "$5/src"; mount --bind "$4" "$5/sock"
place=$5 python=$6 group=$7 main=$8; shift 8
cd "$place/work"
exec setpriv --reuid 65534 --regid 65534 --groups "$group" --inh-caps=-all --bounding-set=-all \
  env -i PATH=/usr/bin:/bin HOME="$place/work" DOCKER_HOST="unix://$place/sock" \
  LD_LIBRARY_PATH="$place/base/lib" PYTHONPATH="$place/src:$place/site" \
  "$place/base/bin/$python" -c "$main" "$@"
"""


@contextmanager
def plain_place() -> Iterator[Path]:
    """A folder that everybody can reach, furnished for `lab_as_plain_user`."""
    with TemporaryDirectory(prefix="lab-plain-") as made:
        place = Path(made)
        place.chmod(0o755)
        furnish(place)
        yield place


def furnish(place: Path) -> Path:
    """Make what `lab_as_plain_user` needs below a folder that everybody can reach; its folder to work in."""
    for name in ("base", "site", "src", "work"):
        (place / name).mkdir()
    (place / "sock").touch()
    os.chown(place / "work", NOBODY, NOBODY)
    return place / "work"


def give_to_nobody(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def write_plain_command(place: Path, *words: str) -> list[str]:
    """The command that is `lab` as a plain user; one process, from its start to its end."""
    socket = Path(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://"))
    sources = [sys.base_prefix, sysconfig.get_path("platlib"), str(REPO / "src"), str(socket)]
    interpreter = f"python{sys.version_info.major}.{sys.version_info.minor}"
    argv = ["unshare", "--mount", "sh", "-c", ENTER, "enter", *sources, str(place), interpreter]
    return [*argv, str(socket.stat().st_gid), MAIN, *words]


def lab_as_plain_user(place: Path, *words: str, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    command = write_plain_command(place, *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
