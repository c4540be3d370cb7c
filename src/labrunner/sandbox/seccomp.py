"""The filter of system calls that bubblewrap sandboxes get: it closes what namespaces leave open.

Sockets to the hypervisor (AF_VSOCK) belong to no network namespace, so "no network" would not hold in a
virtual machine. io_uring opens sockets unseen by any filter, so it goes too, as not implemented: programs
that can use it do without. Calls of the machine's 32-bit sibling may not make sockets at all, because their
arguments can't be looked at.
"""

import platform
import struct
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
    """What a filter must know of a processor."""

    architecture: int
    socket: int
    sibling_socket: int


MACHINES = {
    "x86_64": Machine(architecture=0xC000003E, socket=41, sibling_socket=359),
    "aarch64": Machine(architecture=0xC00000B7, socket=198, sibling_socket=281),
}


def make_filter(machine: str | None = None) -> bytes | None:
    """Make the filter for this machine; None for one that we don't know."""
    known = MACHINES.get(machine or platform.machine())
    return None if known is None else assemble(known)


def assemble(machine: Machine) -> bytes:
    """Write the program. Jumps count instructions from the next one on."""
    program = (
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (JUMP_IF_EQUAL, 5, 0, machine.architecture),
        # the 32-bit sibling
        (LOAD, 0, 0, NUMBER_AT),
        (JUMP_IF_EQUAL, 10, 0, IO_URING_SETUP),
        (JUMP_IF_EQUAL, 8, 0, SOCKETCALL),
        (JUMP_IF_EQUAL, 7, 0, machine.sibling_socket),
        (RETURN, 0, 0, ALLOW),
        # the machine's own calls
        (LOAD, 0, 0, NUMBER_AT),
        (AND, 0, 0, 0xFFFFFFFF ^ X32_BIT),
        (JUMP_IF_EQUAL, 4, 0, IO_URING_SETUP),
        (JUMP_IF_EQUAL, 0, 4, machine.socket),
        (LOAD, 0, 0, FIRST_ARGUMENT_AT),
        (JUMP_IF_EQUAL, 0, 2, AF_VSOCK),
        (RETURN, 0, 0, FAIL | EPERM),
        (RETURN, 0, 0, FAIL | ENOSYS),
        (RETURN, 0, 0, ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
