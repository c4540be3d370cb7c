from typing import Any

import pytest

from labrunner.sandbox import bare
from labrunner.sandbox.bubblewrap.launch_check import check_bwrap, check_fields, try_launch
from labrunner.sandbox.bubblewrap.program import Bwrap
from labrunner.sandbox.door import NO_DEMANDS, AttemptFolders, Phase, PhaseEnd, SandboxMaker
from labrunner.sandbox.fake import FakeMaker
from tests.kit.sandbox.place import plan


async def test_a_machine_that_can_passes(maker: SandboxMaker) -> None:
    kind = "process" if isinstance(maker, bare.ProcessMaker) else "bubblewrap"
    checks = await maker.preflight(plan(kind=kind))
    assert [check.message for check in checks if not check.passed] == []
    assert any("was started and ended" in check.message for check in checks)


async def test_a_launch_that_goes_wrong_is_told() -> None:
    def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        (folders.logs / "agent.stderr").write_text("no way")
        return PhaseEnd(exit_status=3)

    check = await try_launch(FakeMaker(script=script), plan(kind="process"))
    assert not check.passed
    assert "ended with 3 instead of 0: no way" in check.message


@pytest.mark.parametrize(
    ("is_bare", "changes", "names"),
    [
        (False, {}, []),
        (False, {"read_only": True}, []),
        (True, {"read_only": True}, ["sandbox.read_only"]),
        (True, {"image": "x", "tmpfs": {"/run": "size=1m"}}, ["sandbox.image", "sandbox.tmpfs"]),
    ],
)
def test_fields_that_need_a_container_are_refused(
    is_bare: bool, changes: dict[str, Any], names: list[str]
) -> None:
    assert [check.name for check in check_fields(plan(**changes), NO_DEMANDS, is_bare=is_bare)] == names


def test_an_old_bwrap_is_a_warning() -> None:
    (check,) = check_bwrap(Bwrap(path="/usr/bin/bwrap", version=(0, 4)))
    assert (check.severity, check.passed) == ("warning", False)
    assert check_bwrap(Bwrap(path="/usr/bin/bwrap", version=(0, 11))) == ()


def test_bare_processes_hold_memory_by_process_when_nobody_asked_for_more() -> None:
    found = bare.enforcement(plan(memory_mb=300))
    assert found.group is None
    assert found.rlimits["RLIMIT_DATA"] == 300 << 20
    assert (found.limits["memory_mb"], found.limits["memory_scope"]) == (300, "process")
