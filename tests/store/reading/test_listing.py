import asyncio
import shlex
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.store.layout import RunPaths
from labrunner.store.reading.listing import DEFAULT_RUNS, address, find_run, list_runs, nearest_runs
from labrunner.store.writing.create import create_run
from labrunner.store.writing.writer import open_writer
from tests.kit.store.sample import make_lines, make_record, make_status


def make(folder: Path, run_id: str, day: int) -> RunPaths:
    record = make_record(2, run_id, created_at=f"2026-01-{day:02}T00:00:00Z")
    return create_run(folder, record, [b'{"id":"k"}\n'], make_lines(2))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make(tmp_path, "zebra-older", 1)
    make(tmp_path, "ant-newest", 3)
    make(tmp_path, "zebra-middle", 2)
    return tmp_path


def test_runs_are_listed_the_newest_first(runs: Path) -> None:
    assert [run.run_id for run in list_runs(runs)] == ["ant-newest", "zebra-middle", "zebra-older"]
    assert {run.state for run in list_runs(runs)} == {"crashed"}


async def test_a_live_run_is_listed_with_its_counts(runs: Path) -> None:
    async with open_writer(RunPaths(runs / "ant-newest")) as writer:
        await writer.write_status(make_status(2, committed=1, run_id="ant-newest"))
        newest = (await asyncio.to_thread(list_runs, runs))[0]
    assert (newest.state, newest.name, newest.planned) == ("started", "demo", 2)
    assert newest.counts is not None
    assert newest.counts.committed == 1


@pytest.mark.parametrize("damage", ["no run.json", "not JSON", "other version", "no lock", "a file"])
def test_one_unreadable_run_is_listed_as_unreadable_and_breaks_nothing(runs: Path, damage: str) -> None:
    paths = RunPaths(runs / "zebra-middle")
    match damage:
        case "no run.json":
            paths.run.unlink()
        case "not JSON":
            paths.run.write_bytes(b"\x00")
        case "other version":
            paths.run.write_bytes(paths.run.read_bytes().replace(b"run_v1", b"run_v9"))
        case "no lock":
            paths.lock.unlink()
        case _:
            paths.run.unlink()
            paths.run.mkdir()
    listed = {run.run_id: run for run in list_runs(runs)}
    assert listed["zebra-middle"].state == "unreadable"
    assert listed["zebra-middle"].problem
    assert listed["ant-newest"].state == listed["zebra-older"].state == "crashed"


def test_a_run_whose_status_is_damaged_is_listed_as_if_it_had_none(runs: Path) -> None:
    RunPaths(runs / "zebra-middle").status.write_bytes(b"{}")
    assert {run.state for run in list_runs(runs)} == {"crashed"}


def test_no_folder_means_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "nothing") == []


def test_files_and_dot_folders_are_no_runs(runs: Path) -> None:
    (runs / "notes.txt").touch()
    (runs / ".new-run-x").mkdir()
    assert len(list_runs(runs)) == 3


@pytest.mark.parametrize(
    ("text", "found"),
    [("ant-newest", "ant-newest"), ("mid", "zebra-middle"), ("ant", "ant-newest"), ("last", "ant-newest")],
)
def test_a_run_is_found_by_id_part_or_last(runs: Path, text: str, found: str) -> None:
    assert find_run(runs, text) == RunPaths(runs / found)


def test_a_run_is_found_by_its_path(runs: Path, tmp_path: Path) -> None:
    assert find_run(tmp_path / "elsewhere", str(runs / "ant-newest")) == RunPaths(runs / "ant-newest")


def test_an_id_wins_over_a_part_of_another(runs: Path) -> None:
    make(runs, "zebra", 4)
    assert find_run(runs, "zebra") == RunPaths(runs / "zebra")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zebra", "'zebra' fits 2 runs in .*: zebra-middle, zebra-older; write more of the id"),
        ("lion", "no run in .* fits 'lion'; there are: ant-newest, zebra-middle, zebra-older"),
        ("", "no run in .* fits ''"),
    ],
)
def test_what_fits_none_or_several_is_refused_with_candidates(runs: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_run(runs, text)


def test_no_run_at_all_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no run in .* yet"):
        find_run(tmp_path, "last")
    with pytest.raises(InputError, match=r"without a run\.json"):
        find_run(tmp_path, str(tmp_path))


def test_a_command_that_we_suggest_can_be_pasted_whatever_the_folder_is_called(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "my runs; $HOME" / "night")
    assert shlex.split(f"lab show {address(paths)}") == ["lab", "show", str(paths.root)]


def test_runs_are_found_from_a_sub_folder_and_not_beyond_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "home" / "project"
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    (project / DEFAULT_RUNS).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(deep)
    assert nearest_runs(DEFAULT_RUNS) == Path("../../.lab/runs")
    assert nearest_runs(Path("elsewhere")) == Path("elsewhere")
    (deep / DEFAULT_RUNS).mkdir(parents=True)
    assert nearest_runs(DEFAULT_RUNS) == DEFAULT_RUNS

    outside = tmp_path / "home" / "other"
    outside.mkdir()
    (tmp_path / DEFAULT_RUNS).mkdir(parents=True)
    monkeypatch.chdir(outside)
    assert nearest_runs(DEFAULT_RUNS) == DEFAULT_RUNS
    monkeypatch.chdir(tmp_path / "home")
    assert nearest_runs(DEFAULT_RUNS) == DEFAULT_RUNS
