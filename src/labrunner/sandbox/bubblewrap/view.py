"""What of the host a bubblewrap sandbox sees: the system, read-only, and nobody's data.

`/usr` and its kin, a minimal `/etc`, `/proc`, a minimal `/dev`, and the interpreter that `lab`'s environment
was made from: what is installed for lab is not there for agents and graders. No home, no `/var`, no `/run`,
no `/sys`, no sockets. Small files of `/etc` are copied in, which is cheaper than a mount each.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from labrunner.sandbox.paths import HOME, find_python

UID = 1000
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
ETC_FILES = ("ld.so.cache", "nsswitch.conf", "ssl/openssl.cnf")
ETC_LINKS = ("localtime", "os-release", "mtab")
NETWORK_ETC = (
    "resolv.conf",
    "hosts",
    "services",
    "protocols",
    "ssl/certs",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
)
KERNEL_SETTINGS = ("sys", "sysrq-trigger", "fs", "acpi", "scsi", "dynamic_debug")
"""What of /proc a root without capabilities could change; bwrap itself covers `irq` and `bus`."""
LARGEST_COPY = 1 << 20
MADE_UP = {
    "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:{UID}:{UID}:agent:{HOME}:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": f"root:x:0:\nagent:x:{UID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost agentlab\n::1 localhost agentlab\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How the system looks from inside."""

    mounts: tuple[str, ...]
    """Arguments of bwrap."""
    files: tuple[tuple[str, bytes], ...]
    """Files copied in: guest path and content."""
    interpreter: tuple[str, ...]
    """Arguments of bwrap that come after those for `/tmp` and the home: it may lie below either."""


@cache
def host_view() -> View:
    """Look at this host once."""
    mounts = (
        *system_mounts(),
        *etc_mounts(),
        *proc_mounts(is_root=os.geteuid() == 0),
    )
    interpreter = tuple(interpreter_mounts(sys.base_prefix))
    return View(mounts=mounts, files=tuple(etc_files()), interpreter=interpreter)


def network_mounts() -> Iterator[str]:
    """What a phase with the host's network also sees. Bound, not copied: it changes while we run."""
    for name in NETWORK_ETC:
        path = Path("/etc", name)
        if path.exists():
            yield from ("--ro-bind", os.path.realpath(path), str(path))


def proc_mounts(*, is_root: bool) -> Iterator[str]:
    """`/proc`, with every kernel setting read-only.

    Its files go by the user's id on the host. When that is root, who has no capability inside can still
    write `/proc/sys`; bwrap covers only what its own check calls writable, and that is not among it.
    """
    yield from ("--proc", "/proc")
    if not is_root:
        return
    for name in KERNEL_SETTINGS:
        path = Path("/proc", name)
        if name == "sys" or holds_writable(path):
            yield from ("--ro-bind", str(path), str(path))


def holds_writable(path: Path) -> bool:
    """Tell whether the owner may write a file of /proc, or any below it."""
    files = (path,) if path.is_file() else (file for file in path.rglob("*") if file.is_file())
    return any(file.stat().st_mode & 0o200 for file in files)


def system_mounts() -> Iterator[str]:
    """The system's programs and libraries, laid out as on the host."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))


def etc_mounts() -> Iterator[str]:
    """The part of `/etc` that is not files: on Debian, commands like awk are found through it."""
    if Path("/etc/alternatives").is_dir():
        yield from ("--ro-bind", "/etc/alternatives", "/etc/alternatives")
    for name in ETC_LINKS:
        path = Path("/etc", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))


def etc_files() -> Iterator[tuple[str, bytes]]:
    """Small files of `/etc`: the host's where they tell nothing, made up where they would."""
    for name, content in MADE_UP.items():
        yield f"/etc/{name}", content.encode()
    yield "/etc/ld.so.conf", flatten_ld_conf(Path("/etc/ld.so.conf")).encode()
    for name in ETC_FILES:
        path = Path("/etc", name)
        if os.access(path, os.R_OK) and path.stat().st_size <= LARGEST_COPY:
            yield str(path), path.read_bytes()


def flatten_ld_conf(path: Path) -> str:
    """Read the linker's search path with its includes put in place."""
    lines: list[str] = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        if line.startswith("include "):
            included = sorted(Path("/etc").glob(line.split()[1].removeprefix("/etc/")))
            lines.extend(flatten_ld_conf(file) for file in included if file != path)
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def interpreter_mounts(base_prefix: str) -> Iterator[str]:
    """The interpreter below that of `lab`, at the paths it has here, where `/usr` does not show it anyway."""
    for path in dict.fromkeys((base_prefix, os.path.realpath(base_prefix))):
        if not is_shown(path):
            yield from ("--ro-bind", path, path)


def is_shown(path: str) -> bool:
    """Tell whether a path is part of the system anyway (or is so wide that it must never be shown)."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() fails for users that no file knows
    return path in {"/", "/usr", home} or path.startswith("/usr/")


def guest_python() -> str:
    """The interpreter's path inside."""
    found = find_python()
    shown = (f"{sys.base_prefix}/", f"{os.path.realpath(sys.base_prefix)}/", "/usr/")
    return found if found.startswith(shown) else "python3"
