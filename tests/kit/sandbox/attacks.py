"""Run inside a sandbox: tries to get out, and writes what came of each try to `report.json`.

Standard library only; `facts.json` in the working directory says what to aim at. What is refused raises.
"""

import ctypes
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
PTRACE_ATTACH = 16
WORKSPACE = Path.cwd()


def call(name: str, *args: object) -> int:
    result: int = getattr(LIBC, name)(*args)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def mount(source: str, target: str, kind: str, flags: int) -> int:
    return call("mount", source.encode(), target.encode(), kind.encode(), flags, None)


def write_below(folder: str) -> None:
    if Path(folder).is_dir():
        (Path(folder) / "planted").write_text("x")
    else:
        os.close(os.open(folder, os.O_WRONLY))


def connect(family: int, address: tuple[str, int] | str) -> None:
    with socket.socket(family) as client:
        client.settimeout(3)
        client.connect(address)


def read_only_mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if "ro" in fields[5].split(","):
            yield fields[4]


def attacks(facts: dict[str, int | str]) -> Iterator[tuple[str, Callable[[], object]]]:
    runner = int(facts["runner"])
    for target in read_only_mounts():
        yield f"write {target}", lambda target=target: write_below(target)  # type: ignore[misc]
        yield f"remount {target}", lambda target=target: mount("", target, "", MS_REMOUNT | MS_BIND)  # type: ignore[misc]
        yield f"umount {target}", lambda target=target: call("umount2", target.encode(), 2)  # type: ignore[misc]
    for guest in ("in", "agent", "grader"):
        yield f"write /agentlab/{guest}", lambda guest=guest: write_below(f"/agentlab/{guest}")  # type: ignore[misc]
    yield "mount a tmpfs", lambda: mount("x", str(WORKSPACE), "tmpfs", 0)
    yield "mount proc", lambda: mount("x", str(WORKSPACE), "proc", 0)
    yield "bind over /usr", lambda: mount(str(WORKSPACE), "/usr", "", MS_BIND)
    yield "make a disk", lambda: os.mknod("disk", 0o060600, os.makedev(8, 0))
    yield "make a memory device", lambda: os.mknod("mem", 0o020600, os.makedev(1, 1))
    yield "chroot", lambda: os.chroot("/usr")
    yield "pivot_root", lambda: call("syscall", 155, b".", b".")
    for name, flag in {
        "user": CLONE_NEWUSER,
        "mount": CLONE_NEWNS,
        "net": CLONE_NEWNET,
        "pid": CLONE_NEWPID,
    }.items():
        yield f"new {name} namespace", lambda flag=flag: call("unshare", flag)  # type: ignore[misc]
    yield "ptrace the runner", lambda: call("ptrace", PTRACE_ATTACH, runner, 0, 0)
    yield "kill the runner", lambda: os.kill(runner, 9)
    yield "signal the runner", lambda: os.kill(runner, 0)
    yield "see the runner", lambda: os.stat(f"/proc/{runner}")
    yield "become root", lambda: os.setresuid(0, 0, 0)
    yield "become nobody", lambda: os.setresuid(65534, 65534, 65534)
    yield "set groups", lambda: os.setgroups([0])
    yield "set a host name", lambda: call("sethostname", b"mine", 4)
    yield "reach the host over loopback", lambda: connect(socket.AF_INET, ("127.0.0.1", int(facts["port"])))
    yield "reach an address outside", lambda: connect(socket.AF_INET, ("192.0.2.1", 80))
    yield "reach an abstract socket", lambda: connect(socket.AF_UNIX, f"\0{facts['abstract']}")
    yield "make a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
    yield "make a packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    yield "make a vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    for number, name in ((248, "add_key"), (249, "request_key"), (250, "keyctl")):
        if os.uname().machine == "x86_64":
            yield f"call {name}", lambda number=number: call("syscall", number, 0, -3, 0, 0, 0)  # type: ignore[misc]
    for path in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sysrq-trigger",
        "/proc/mtrr",
    ):
        yield f"open {path} to write", lambda path=path: os.open(path, os.O_WRONLY)  # type: ignore[misc]
    for path in ("/etc/shadow", "/var", "/run", "/sys", "/srv", "/boot", "/mnt", str(facts["secret"])):
        yield f"see {path}", lambda path=path: os.stat(path)  # type: ignore[misc]
    yield "write to the root", lambda: Path("/planted").write_text("x")
    yield "leave through an open folder", leave_through_descriptors


def leave_through_descriptors() -> None:
    for fd in os.listdir("/proc/self/fd"):
        if (
            int(fd) > 2
            and os.path.isdir(f"/proc/self/fd/{fd}/")
            and os.readlink(f"/proc/self/fd/{fd}")[:6] != "/proc/"
        ):
            return
    raise PermissionError("none is open")


def attempt(attack: Callable[[], object]) -> str:
    """Try in a process of its own: a try that works may change this one."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            attack()
            os.write(writer, b"succeeded")
        except BaseException as error:  # noqa: BLE001 - any refusal is one
            os.write(writer, f"refused: {error}".encode()[:4000])
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        said = answer.read().decode()
    os.wait()
    return said


def main() -> None:
    facts = json.loads(Path("facts.json").read_text())
    report = {name: attempt(attack) for name, attack in attacks(facts)}
    status = Path("/proc/self/status").read_text()
    report["capabilities"] = " ".join(
        line.split()[1] for line in status.splitlines() if line.startswith("Cap")
    )
    report["no_new_privs"] = next(
        line.split()[1] for line in status.splitlines() if line.startswith("NoNewPrivs")
    )
    report["processes"] = " ".join(name for name in os.listdir("/proc") if name.isdigit())
    Path("report.json").write_text(json.dumps(report))


main()
