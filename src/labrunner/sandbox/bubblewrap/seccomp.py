"""The filter of system calls that bubblewrap sandboxes get: it closes what namespaces leave open.

Sockets to the hypervisor (AF_VSOCK) belong to no network namespace, so "no network" would not hold in a
virtual machine. Keyrings belong to no namespace that a sandbox can have anew: one phase could read what
another, or the person who started `lab`, keeps there. io_uring opens sockets unseen by any filter, so it
goes too, as not implemented: programs that can use it do without. Calls of the machine's 32-bit sibling may
not make sockets at all, because their arguments can't be looked at.
"""

import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass

LOAD, AND, JUMP_IF_EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
AF_VSOCK = 40
IO_URING_SETUP = 425
SOCKETCALL = 102
X32_BIT = 0x40000000


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a filter must know of a processor: the numbers of calls."""

    architecture: int
    socket: int
    keys: tuple[int, int, int]
    """add_key, request_key, keyctl."""
    sibling_socket: int
    sibling_keys: tuple[int, int, int]


MACHINES = {
    "x86_64": Machine(
        architecture=0xC000003E,
        socket=41,
        keys=(248, 249, 250),
        sibling_socket=359,
        sibling_keys=(286, 287, 288),
    ),
    "aarch64": Machine(
        architecture=0xC00000B7,
        socket=198,
        keys=(217, 218, 219),
        sibling_socket=281,
        sibling_keys=(309, 310, 311),
    ),
}


def make_filter(machine: str | None = None) -> bytes | None:
    """Make the filter for this machine; None for one that we don't know."""
    known = MACHINES.get(machine or platform.machine())
    return None if known is None else assemble(known)


def assemble(machine: Machine) -> bytes:
    """Write the program. Jumps count instructions from the next one on."""
    sibling = [
        (LOAD, 0, 0, NUMBER_AT),
        *_fail_on((IO_URING_SETUP,), ENOSYS),
        *_fail_on((SOCKETCALL, machine.sibling_socket, *machine.sibling_keys), EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    own = [
        (LOAD, 0, 0, NUMBER_AT),
        (AND, 0, 0, 0xFFFFFFFF ^ X32_BIT),
        *_fail_on((IO_URING_SETUP,), ENOSYS),
        *_fail_on(machine.keys, EPERM),
        (JUMP_IF_EQUAL, 0, 3, machine.socket),
        (LOAD, 0, 0, FIRST_ARGUMENT_AT),
        *_fail_on((AF_VSOCK,), EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    program = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (JUMP_IF_EQUAL, len(sibling), 0, machine.architecture),
        *sibling,
        *own,
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _fail_on(values: tuple[int, ...], error: int) -> Iterator[tuple[int, int, int, int]]:
    """Fail when what was loaded is one of these."""
    for value in values:
        yield JUMP_IF_EQUAL, 0, 1, value
        yield RETURN, 0, 0, FAIL | error
