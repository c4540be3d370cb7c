import os
import pwd
import sys
from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap import view


def binds(args: list[str]) -> list[str]:
    return [args[at + 2] for at, arg in enumerate(args) if arg == "--ro-bind"]


def test_an_interpreter_behind_a_link_is_shown_at_both_paths(tmp_path: Path) -> None:
    (tmp_path / "3.11.7").mkdir()
    (tmp_path / "3.11").symlink_to("3.11.7")
    base = str(tmp_path / "3.11")
    assert binds(list(view.interpreter_mounts(base))) == [base, os.path.realpath(base)]


@pytest.mark.parametrize("prefix", ["/usr", "/usr/local", "/", str(Path.home())])
def test_the_system_and_anything_too_wide_is_not_bound_again(prefix: str) -> None:
    assert list(view.interpreter_mounts(prefix)) == []


def test_kernel_settings_are_covered_for_root_alone() -> None:
    assert "/proc/sys" in binds(list(view.proc_mounts(is_root=True)))
    assert list(view.proc_mounts(is_root=False)) == ["--proc", "/proc"]


def test_the_host_view_shows_no_accounts_of_the_host() -> None:
    files = dict(view.host_view().files)
    assert b"agent:x:1000" in files["/etc/passwd"]
    assert files["/etc/passwd"].count(b"\n") == 3
    assert "/etc/shadow" not in files


def test_the_linkers_includes_are_put_in_place(tmp_path: Path) -> None:
    conf = tmp_path / "ld.so.conf"
    conf.write_text("/opt/lib\ninclude /etc/ld.so.conf.d/*.conf\n")
    flat = view.flatten_ld_conf(conf)
    assert flat.startswith("/opt/lib\n")
    assert "include" not in flat


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="these tests run without an environment")
def test_the_interpreter_inside_is_the_one_below_that_of_lab() -> None:
    found = view.guest_python()
    assert os.path.realpath(found) == os.path.realpath(sys.executable)
    assert not found.startswith(sys.prefix)
    assert sys.prefix not in view.host_view().interpreter


def test_a_user_that_no_file_knows_has_a_view_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def knows_nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    # A user whom the machine does not know: nobody can be made unknown.
    monkeypatch.setattr(pwd, "getpwuid", knows_nobody)
    assert view.is_shown("/usr/lib")
    assert not view.is_shown("/opt/python")
