from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labrunner.sandbox.bubblewrap.program import (
    Bwrap,
    HostFacts,
    ask_version,
    candidates,
    explain,
    find_bwrap,
    works_here,
)

FINE = HostFacts(
    platform="linux",
    bwrap="/usr/bin/bwrap",
    is_root=False,
    max_user_namespaces=15000,
    unprivileged_userns_clone=None,
    apparmor_restricts=False,
    in_container=False,
)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"platform": "darwin", "bwrap": None}, "needs Linux and this is darwin"),
        ({"bwrap": None}, "not installed: apt install bubblewrap"),
        ({"max_user_namespaces": 0}, "sysctl -w user.max_user_namespaces"),
        ({"unprivileged_userns_clone": 0}, "sysctl -w kernel.unprivileged_userns_clone=1"),
        ({"apparmor_restricts": True}, "profile labrunner /usr/bin/bwrap flags=(unconfined) { userns, }"),
        ({"in_container": True}, "inside a container"),
        ({}, "could not start"),
        ({"unprivileged_userns_clone": 0, "is_root": True}, "could not start"),
    ],
)
def test_the_reason_is_given_in_words(facts: dict[str, Any], words: str) -> None:
    reason = explain(replace(FINE, **facts), "bwrap: no permissions")
    assert words in reason
    assert "bwrap said: bwrap: no permissions" in reason
    assert reason.endswith("lab run --sandbox process")


def test_an_old_bwrap_leaves_user_namespaces_open() -> None:
    assert "--disable-userns" in Bwrap(path="x", version=(0, 8, 0)).core_args
    assert "--disable-userns" not in Bwrap(path="x", version=(0, 6, 2)).core_args


def test_what_is_not_bwrap_is_not_taken_for_it(tmp_path: Path) -> None:
    impostor = tmp_path / "bwrap"
    impostor.write_text("#!/bin/sh\necho something 1.0\n")
    impostor.chmod(0o755)
    assert ask_version(str(impostor)) is None
    assert ask_version(str(tmp_path / "nothing")) is None


def test_the_systems_bwrap_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tmp_path / "bwrap"
    system.write_text("#!/bin/sh\necho bubblewrap 0.9.0\n")
    system.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert candidates()[0] == str(system)
    assert ask_version(str(system)) == Bwrap(path=str(system), version=(0, 9, 0))


@pytest.mark.bwrap
def test_the_quick_probe_agrees_with_what_is_here() -> None:
    works, why = works_here()
    bwrap = find_bwrap()
    assert works is False or (bwrap is not None and bwrap.path in why)
    assert works is True or "lab run --sandbox process" in why
