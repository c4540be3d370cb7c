import fcntl
import os
from pathlib import Path

import msgspec
import pytest

from labrunner.errors import InputError, StoreError
from labrunner.records.seals import seal
from labrunner.store.checking.verification import verify
from labrunner.store.reading.listing import list_runs
from labrunner.store.reading.run_state import iter_finished, read_run
from labrunner.store.writing.create import UNFINISHED, create_run, remove_leftovers
from tests.kit.store.sample import make_lines, make_record, make_run

TASKS = [b'{"id":"k"}\n']


def test_a_new_run_is_complete_and_verifies(tmp_path: Path) -> None:
    paths = make_run(tmp_path / "deep" / "runs", 4)
    assert read_run(paths) == seal(make_record(4))
    assert list(iter_finished(paths)) == []
    report = verify(paths)
    assert (report.problems, report.committed, report.planned) == ((), 0, 4)
    assert [entry.name for entry in (tmp_path / "deep" / "runs").iterdir()] == ["run-1"]


def test_an_existing_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    paths = make_run(tmp_path)
    before = paths.run.read_bytes()
    with pytest.raises(InputError, match="exists already; choose another --run-id"):
        make_run(tmp_path, planned=2)
    assert paths.run.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["run-1"]


@pytest.mark.parametrize("field", ["tasks", "schedule"])
def test_lines_that_are_not_what_the_record_names_make_no_run(tmp_path: Path, field: str) -> None:
    record = make_record(3)
    digests = msgspec.structs.replace(record.digests, **{field: "sha256:" + "0" * 64})
    with pytest.raises(StoreError, match=f"{field}.jsonl: its lines do not have the digest"):
        create_run(tmp_path, msgspec.structs.replace(record, digests=digests), TASKS, make_lines(3))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", [b"", b"{}", b"{}\n{}\n"])
def test_what_is_not_one_line_makes_no_run(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(ValueError, match="not one line"):
        create_run(tmp_path, make_record(3), [line], make_lines(3))
    assert list(tmp_path.iterdir()) == []


def test_a_record_against_its_schema_makes_no_run(tmp_path: Path) -> None:
    record = msgspec.structs.replace(make_record(3), planned="three")
    with pytest.raises(ValueError, match="planned"):
        create_run(tmp_path, record, TASKS, make_lines(3))
    assert list(tmp_path.iterdir()) == []


def test_half_built_runs_are_removed_when_old_and_nobodys(tmp_path: Path) -> None:
    for name in ("old", "young", "locked"):
        (tmp_path / f"{UNFINISHED}{name}").mkdir()
        (tmp_path / f"{UNFINISHED}{name}" / "lock").touch()
    for name in ("old", "locked"):
        os.utime(tmp_path / f"{UNFINISHED}{name}", (0, 0))
    with (tmp_path / f"{UNFINISHED}locked" / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert list_runs(tmp_path) == []
        remove_leftovers(tmp_path, before=1000)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == [
            f"{UNFINISHED}locked",
            f"{UNFINISHED}young",
        ]
