import struct

import pytest

from labrunner.sandbox.bubblewrap import seccomp

X86, I386, ARM64, ARM32 = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
REFUSED, NOT_THERE, ALLOWED = seccomp.FAIL | seccomp.EPERM, seccomp.FAIL | seccomp.ENOSYS, seccomp.ALLOW


def judge(program: bytes, architecture: int, number: int, argument: int) -> int:
    """Carry out a filter as the kernel would."""
    seen = {
        seccomp.NUMBER_AT: number,
        seccomp.ARCHITECTURE_AT: architecture,
        seccomp.FIRST_ARGUMENT_AT: argument,
    }
    instructions = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        code, if_true, if_false, operand = instructions[at]
        at += 1
        match code:
            case seccomp.LOAD:
                value = seen[operand]
            case seccomp.AND:
                value &= operand
            case seccomp.JUMP_IF_EQUAL:
                at += if_true if value == operand else if_false
            case _:
                return int(operand)


@pytest.mark.parametrize(
    ("machine", "architecture", "number", "argument", "outcome"),
    [
        ("x86_64", X86, 41, seccomp.AF_VSOCK, REFUSED),
        ("x86_64", X86, 41, 2, ALLOWED),
        ("x86_64", X86, 41 | seccomp.X32_BIT, seccomp.AF_VSOCK, REFUSED),
        ("x86_64", X86, 425, 0, NOT_THERE),
        ("x86_64", X86, 250, 0, REFUSED),
        ("x86_64", X86, 248 | seccomp.X32_BIT, 0, REFUSED),
        ("x86_64", I386, 425, 0, NOT_THERE),
        ("x86_64", I386, 288, 0, REFUSED),
        ("x86_64", I386, 102, 1, REFUSED),
        ("x86_64", I386, 359, 2, REFUSED),
        ("x86_64", I386, 4, 1, ALLOWED),
        ("aarch64", ARM64, 198, seccomp.AF_VSOCK, REFUSED),
        ("aarch64", ARM64, 198, 1, ALLOWED),
        ("aarch64", ARM64, 219, 0, REFUSED),
        ("aarch64", ARM32, 311, 0, REFUSED),
        ("aarch64", ARM32, 219, 0, ALLOWED),
    ],
)
def test_outcome_of_a_call(machine: str, architecture: int, number: int, argument: int, outcome: int) -> None:
    program = seccomp.make_filter(machine)
    assert program is not None
    assert judge(program, architecture, number, argument) == outcome


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", X86), ("aarch64", ARM64)])
def test_every_other_call_is_allowed_whatever_its_argument(machine: str, architecture: int) -> None:
    program = seccomp.make_filter(machine)
    assert program is not None
    refused = {n for n in range(500) if judge(program, architecture, n, seccomp.AF_VSOCK) != ALLOWED}
    known = seccomp.MACHINES[machine]
    assert refused == {known.socket, *known.keys, seccomp.IO_URING_SETUP}


def test_an_unknown_machine_has_no_filter() -> None:
    assert seccomp.make_filter("riscv64") is None
