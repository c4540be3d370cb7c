"""Starting the driver as this user, or, when this is root, as a plain one.

A plain user can't read root's interpreter or this repository, so it gets a mount namespace in which both
are bound to a place that it can.
"""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

REPO = Path(__file__).parents[3]
NOBODY = 65534
ENTER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$5/base"
mount --bind "$2" "$5/site"
mount --bind "$3" "$5/src"
mount --bind "$4" "$5/tests"
exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all \
  env -i PATH=/usr/bin:/bin PYTHONPATH="$5/src:$5/site" "$5/base/bin/$6" "$5/tests/driver.py"
"""


def drive_as_this_user(order: dict[str, Any]) -> dict[str, Any]:
    return drive([sys.executable, str(Path(__file__).with_name("driver.py"))], order)


def drive_as_plain_user(order: dict[str, Any], place: Path) -> dict[str, Any]:
    """Run the driver as nobody; `place` is a folder that nobody can reach."""
    for name in ("base", "site", "src", "tests"):
        (place / name).mkdir()
    sources = [sys.base_prefix, sysconfig.get_path("platlib"), str(REPO / "src"), str(Path(__file__).parent)]
    interpreter = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return drive(["unshare", "--mount", "sh", "-c", ENTER, "enter", *sources, str(place), interpreter], order)


def drive(argv: list[str], order: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(argv, input=json.dumps(order), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def give_to_nobody(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
