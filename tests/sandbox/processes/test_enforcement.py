from typing import Any

import pytest

from labrunner.sandbox.processes.cgroup import Controller, GroupLimits
from labrunner.sandbox.processes.enforcement import CONTROLLER_OF, MIB, check_limits, enforce
from tests.kit.sandbox.place import plan

ALL: frozenset[Controller] = frozenset({"memory", "pids", "cpu"})
EVERY = frozenset(CONTROLLER_OF)


def test_everything_is_held_by_a_group_where_there_is_one() -> None:
    found = enforce(plan(memory_mb=100, pids=10, cpus=0.5), ALL, by_group=EVERY, overhead=3)
    assert found.group == GroupLimits(memory_bytes=100 * MIB, pids=13, cpus=0.5)
    assert found.limits == {"cpus": 0.5, "memory_mb": 100, "pids": 10, "disk_mb": 1024}


def test_without_groups_only_the_disk_is_held() -> None:
    found = enforce(plan(), frozenset(), by_group=EVERY, overhead=3)
    assert found.group is None
    assert found.limits == {"cpus": None, "memory_mb": None, "pids": None, "disk_mb": 1024}


def test_a_part_of_the_controllers_holds_a_part_of_the_limits() -> None:
    found = enforce(plan(pids=10), frozenset({"pids"}), by_group=EVERY, overhead=1)
    assert found.group == GroupLimits(pids=11)


def test_no_quota_above_what_the_host_has() -> None:
    found = enforce(plan(cpus=10_000), ALL, by_group=EVERY, overhead=0)
    assert found.group is not None
    assert found.group.cpus is not None
    assert found.group.cpus < 10_000


@pytest.mark.parametrize(
    ("changes", "passed", "severity"),
    [
        ({}, True, "error"),
        ({"asked": ("disk_mb",)}, True, "error"),
        ({"asked": ("memory_mb",)}, False, "error"),
        ({"asked": ("memory_mb",), "limits": "best_effort"}, False, "warning"),
    ],
)
def test_what_was_asked_for_must_hold(changes: dict[str, Any], passed: bool, severity: str) -> None:
    asked = plan(**changes)
    limits = enforce(asked, frozenset(), by_group=EVERY, overhead=0).limits
    (check,) = check_limits(asked, limits, "no group")
    assert (check.passed, check.severity) == (passed, severity)


def test_the_refusal_names_limit_reason_and_way_out() -> None:
    asked = plan(asked=("pids",), pids=64)
    (check,) = check_limits(asked, {"pids": None}, "there is no control group that this user may make")
    assert check.message.startswith(
        "the experiment asks for pids: 64, which can't be enforced here: there is no"
    )
    assert "sandbox.limits: best_effort" in check.message
