import os
from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap.program import works_here
from labrunner.sandbox.door import SandboxMaker
from labrunner.sandbox.processes.cgroup import control_groups
from labrunner.sandbox.registry import make
from tests.kit.sandbox.kinds import KINDS
from tests.kit.sandbox.place import Place, make_place


@pytest.fixture(params=KINDS)
def maker(request: pytest.FixtureRequest) -> SandboxMaker:
    if request.param == "bubblewrap":
        need_bwrap()
    return make(request.param)


@pytest.fixture
def place(maker: SandboxMaker, tmp_path: Path) -> Place:
    return make_place(maker, tmp_path / "attempt")


@pytest.fixture
def bubble(tmp_path: Path) -> Place:
    need_bwrap()
    return make_place(make("bubblewrap"), tmp_path / "attempt")


@pytest.fixture
def bare(tmp_path: Path) -> Place:
    return make_place(make("process"), tmp_path / "attempt")


@pytest.fixture
def need_groups() -> None:
    groups = control_groups()
    if groups is None or set(groups.parents) != {"memory", "pids", "cpu"}:
        pytest.skip("no control groups with memory, pids and cpu may be made here")


@pytest.fixture
def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")


def need_bwrap() -> None:
    works, why = works_here()
    if not works:
        pytest.skip(why)
