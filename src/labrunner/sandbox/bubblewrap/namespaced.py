"""bubblewrap: each phase in namespaces of its own, over the same workspace, without a daemon.

One launch per phase. The end of a phase is a barrier: bwrap's first process inside is the namespace's init,
the kernel ends every process of the namespace with it, and our keeper (`labrunner.sandbox.processes.warden`)
has reaped it before it reports. (bwrap's own exit proves nothing: it comes before its init is gone.) The
command's environment, the paths of the host and the grader's files never appear in a command line: arguments
go through a descriptor.
"""

import array
import fcntl
import os
import termios
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from labrunner.errors import SandboxFailed
from labrunner.experiment.resolved import SandboxPlan
from labrunner.records.facts.exit_status import NOT_FOUND
from labrunner.sandbox.bubblewrap.doorstep import Doorstep, make_doorstep
from labrunner.sandbox.bubblewrap.program import Bwrap, explain, find_bwrap, look_at_host
from labrunner.sandbox.bubblewrap.program import works_here as works_here
from labrunner.sandbox.bubblewrap.seccomp import make_filter
from labrunner.sandbox.bubblewrap.view import UID, guest_python, host_view, network_mounts
from labrunner.sandbox.door import (
    NO_DEMANDS,
    AttemptFolders,
    Check,
    Demands,
    GuestPaths,
    Phase,
    Reach,
    Sandbox,
    SandboxSpec,
)
from labrunner.sandbox.mortal import Mortal
from labrunner.sandbox.paths import AGENTLAB, HOME, TMP, guest_paths
from labrunner.sandbox.processes.cgroup import control_groups
from labrunner.sandbox.processes.enforcement import CONTROLLER_OF, Enforcement, check_limits, enforce
from labrunner.sandbox.processes.launched import LaunchedSandbox
from labrunner.sandbox.processes.phase import Finished, PhaseCommand, PhaseRunner, Scratch

REACH = Reach(way="planted")
OWN_PROCESSES = 3
"""Keeper, bwrap outside, bwrap's init inside."""
ARGS_FD, STATUS_FD, GATE_FD, FIRST_FILE_FD = 3, 4, 5, 6
"""Descriptors of bwrap. The files are those of the view; after them comes the filter of system calls."""


def enforcement(plan: SandboxPlan) -> Enforcement:
    """Limits by a control group, where there is one."""
    groups = control_groups()
    available = frozenset(groups.parents) if groups is not None else frozenset()
    return enforce(plan, available, by_group=frozenset(CONTROLLER_OF), overhead=OWN_PROCESSES)


def common_args(bwrap: Bwrap) -> Iterator[str]:
    """What is the same in every launch."""
    yield from bwrap.core_args
    yield from ("--clearenv", "--uid", str(UID), "--gid", str(UID), "--hostname", "agentlab")
    yield from ("--json-status-fd", str(STATUS_FD), "--block-fd", str(GATE_FD))
    view = host_view()
    yield from view.mounts
    for number, (path, _) in enumerate(view.files):
        yield from ("--perms", "0444", "--file", str(FIRST_FILE_FD + number), path)
    if make_filter() is not None:
        yield from ("--seccomp", str(FIRST_FILE_FD + len(view.files)))
    yield from ("--dev", "/dev")


def phase_args(spec: SandboxSpec, phase: Phase, scratch: Scratch) -> Iterator[str]:
    """What only this phase sees."""
    folders = spec.folders
    is_grader = phase.name == "grader"
    yield from ("--ro-bind", str(folders.inputs), f"{AGENTLAB}/in")
    yield from ("--bind", str(folders.workspace), f"{AGENTLAB}/workspace")
    yield from ("--bind", str(folders.out), f"{AGENTLAB}/out")
    yield from ("--ro-bind" if is_grader else "--bind", str(folders.state), f"{AGENTLAB}/state")
    if is_grader:
        yield from ("--ro-bind", str(folders.grader), f"{AGENTLAB}/grader")
    else:
        yield from ("--dir", f"{AGENTLAB}/grader")
        if spec.agent_dir is not None:
            yield from ("--ro-bind", str(spec.agent_dir), f"{AGENTLAB}/agent")
            if spec.agent_also_at is not None:
                yield from ("--ro-bind", str(spec.agent_dir), spec.agent_also_at)
    yield from ("--bind", str(scratch.home), HOME, "--bind", str(scratch.tmp), TMP)
    yield from host_view().interpreter
    if phase.network.mode == "full":
        yield from ("--share-net", *network_mounts())
    yield from ("--remount-ro", "/", "--chdir", f"{AGENTLAB}/workspace")
    for name, value in {**phase.env, "HOME": HOME, "TMPDIR": TMP}.items():
        yield from ("--setenv", name, value)


@dataclass(slots=True, kw_only=True)
class LaunchStatus:
    """What a launch tells us besides its exit status.

    `status` holds bwrap's own report: an exit code is in it only if the command was executed. The gate's
    one byte is read when everything but the command is in place.
    """

    args: int
    status: int
    gate: int
    key: int
    """The other end of the gate."""
    is_open: bool = False

    def open(self) -> None:
        """Let the command begin."""
        self.is_open = True
        os.write(self.key, b"g")

    def was_executed(self) -> bool:
        """Whether the command itself was started."""
        return b'"exit-code"' in os.pread(self.status, 4096, 0)

    def was_reached(self) -> bool:
        """Whether the sandbox stood complete, before the command."""
        unread = array.array("i", [0])
        fcntl.ioctl(self.gate, termios.FIONREAD, unread)
        return self.is_open and unread[0] == 0


@contextmanager
def make_gate(args: bytes) -> Iterator[LaunchStatus]:
    """Make the descriptors of one launch."""
    with ExitStack() as stack:
        memory = [os.memfd_create(name) for name in ("args", "status")]
        reader, writer = os.pipe()
        for fd in (*memory, reader, writer):
            stack.callback(os.close, fd)
        os.write(memory[0], args)
        os.lseek(memory[0], 0, os.SEEK_SET)
        yield LaunchStatus(args=memory[0], status=memory[1], gate=reader, key=writer)


class CopiedFiles:
    """What is copied into every sandbox, as descriptors: each launch has positions of its own in them."""

    def __init__(self, contents: Iterable[bytes]) -> None:
        """Hold the contents in memory for as long as this process lives."""
        self._held = tuple(hold_in_memory(content) for content in contents)
        self._idle: list[tuple[int, ...]] = []

    @contextmanager
    def lend(self) -> Iterator[tuple[int, ...]]:
        """Lend a set of descriptors, each at its beginning, for one launch."""
        lent = self._idle.pop() if self._idle else self._open()
        try:
            for fd in lent:
                os.lseek(fd, 0, os.SEEK_SET)
            yield lent
        except BaseException:
            # Somebody may still read from them.
            for fd in lent:
                os.close(fd)
            raise
        self._idle.append(lent)

    def _open(self) -> tuple[int, ...]:
        return tuple(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC) for fd in self._held)


@dataclass(frozen=True, kw_only=True)
class BubblewrapSandbox(LaunchedSandbox):
    """One attempt's namespaces, one after another."""

    bwrap: Bwrap
    runner: PhaseRunner
    common: tuple[str, ...]
    files: CopiedFiles
    limits: Mapping[str, float | int | str | bool | None]
    barrier: str = "pid_namespace"
    reach: Reach = REACH

    async def launch(self, phase: Phase, scratch: Scratch) -> Finished:
        """Carry out one phase in namespaces of its own."""
        refuse(phase)
        with ExitStack() as stack:
            files = stack.enter_context(self.files.lend())
            # Who enters by doors is known before it begins; the others need no word from us.
            doorstep = None if phase.doors is None else stack.enter_context(make_doorstep())
            told = () if doorstep is None else ("--info-fd", str(FIRST_FILE_FD + len(files)))
            words = (*self.common, *phase_args(self.spec, phase, scratch), *told, "")
            gate = stack.enter_context(make_gate("\0".join(words).encode(errors="surrogateescape")))
            command = PhaseCommand(
                argv=(self.bwrap.path, "--args", str(ARGS_FD), "--", *phase.argv),
                env={},
                cwd="/",
                folders=scratch.missing,
                fds=(gate.args, gate.status, gate.gate, *files, *(doorstep.fds if doorstep else ())),
                admit=None if doorstep is None else partial(_admit, phase, doorstep, gate),
            )
            if doorstep is None:
                gate.open()
            return self._judge(phase, await self.runner.run(phase, command), gate)

    def _judge(self, phase: Phase, finished: Finished, gate: LaunchStatus) -> Finished:
        """Tell the command's own end from a sandbox that could not be made."""
        if gate.was_executed() or finished.report.told or finished.end.oom_killed:
            return finished
        if gate.was_reached() and finished.report.status == 1:
            return replace(finished, end=replace(finished.end, exit_status=NOT_FOUND))
        said = read_tail(self.spec.folders.logs / f"{phase.stream or phase.name}.stderr")
        if gate.was_reached():
            raise SandboxFailed("killed", f"bwrap was killed from outside during the {phase.name}: {said}")
        raise SandboxFailed("launch", f"making a sandbox for the {phase.name}: {said}")


async def _admit(phase: Phase, doorstep: Doorstep, gate: LaunchStatus) -> None:
    """Open the phase's doors in its network, then let it begin."""
    assert phase.doors is not None
    pid = await doorstep.find_pid()
    if pid is not None:  # else its end tells why
        await phase.doors.open(pid)
        gate.open()


def refuse(phase: Phase) -> None:
    """Refuse what this kind of sandbox can't do."""
    if phase.user is not None:
        raise SandboxFailed("user", "bubblewrap has one user inside; drop `user`, or use docker")
    if phase.network.mode == "allow" and phase.doors is None:
        raise SandboxFailed("network", "bubblewrap can't keep a list of allowed hosts; use none or full")


def read_tail(path: Path) -> str:
    """Read the end of a log that we wrote to."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 2000))
            return file.read().decode(errors="replace").strip()
    except OSError as error:
        return f"(its log can't be read: {error})"


class BubblewrapMaker(Mortal):
    """Makes sandboxes of namespaces."""

    def __init__(self) -> None:
        """Look at nothing yet."""
        self._files: CopiedFiles | None = None
        self._common: tuple[str, ...] | None = None

    def guest_paths(self, folders: AttemptFolders, agent_dir: Path | None) -> GuestPaths:
        """The same in every attempt."""
        del folders, agent_dir
        return guest_paths(guest_python())

    async def preflight(self, plan: SandboxPlan, demands: Demands = NO_DEMANDS) -> tuple[Check, ...]:
        """Launch one sandbox for real, and see that every limit that was asked for can be held."""
        from labrunner.sandbox.bubblewrap.launch_check import check_bwrap, check_fields, try_launch

        return (
            *check_fields(plan, demands, is_bare=False),
            *check_bwrap(find_bwrap()),
            await try_launch(self, plan, explain=_explain),
            *check_limits(
                plan, enforcement(plan).limits, "there is no control group that this user may make"
            ),
        )

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """Make a sandbox for one attempt."""
        return self._open(spec)

    @asynccontextmanager
    async def _open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        bwrap = find_bwrap()
        if bwrap is None:
            raise SandboxFailed("launch", explain(look_at_host(None), ""))
        found = enforcement(spec.plan)
        yield BubblewrapSandbox(
            spec=spec,
            bwrap=bwrap,
            runner=PhaseRunner(spec=spec, enforcement=found),
            common=self._common_args(bwrap),
            files=self._copied_files(),
            limits=found.limits,
        )

    def _common_args(self, bwrap: Bwrap) -> tuple[str, ...]:
        if self._common is None:
            self._common = tuple(common_args(bwrap))
        return self._common

    def _copied_files(self) -> CopiedFiles:
        """The files of the view, and the filter."""
        if self._files is None:
            contents = [*(content for _, content in host_view().files), make_filter()]
            self._files = CopiedFiles(content for content in contents if content is not None)
        return self._files


def _explain(problem: str) -> str:
    return explain(look_at_host(find_bwrap()), problem)


def hold_in_memory(content: bytes) -> int:
    """Put bytes where a descriptor can be opened for them again and again."""
    fd = os.memfd_create("view")
    os.write(fd, content)
    return fd
