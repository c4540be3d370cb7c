"""A task that is made once more, in a process of its own, to see which files that reads."""

import asyncio
import os
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.solve.resolving.rehearsal import rehearse
from tests.kit.solve.authoring import write_task
from tests.kit.waiting import wait_for

MADE = """
@task
def made():
    {work}
    return Task(dataset=[Sample(input="x")], solver=generate(), scorer=includes())
"""


def write(folder: Path, work: str) -> str:
    return f"{write_task(folder, MADE.format(work=work))}@made"


async def test_files_are_told_that_are_read_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("Answer.")
    (tmp_path / "other.txt").write_text("")
    target = write(tmp_path, 'open("prompt.txt").read()')
    assert await rehearse(target, {}, [tmp_path], tmp_path) == [tmp_path / "task.py", tmp_path / "prompt.txt"]


async def test_what_lies_where_lab_was_started_is_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/msgspec.py").write_text("raise RuntimeError('of nobody')")
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "p").mkdir()
    target = write(tmp_path / "p", "pass")
    assert await rehearse(target, {}, [tmp_path / "p"], tmp_path / "p") == [tmp_path / "p/task.py"]


async def test_a_process_that_ends_without_a_word_is_told_with_what_it_said_last(tmp_path: Path) -> None:
    target = write(
        tmp_path, "import os, sys; print('no such', 'card', file=sys.stderr, flush=True); os._exit(3)"
    )
    with pytest.raises(InputError, match=r"ended with status 3: no such card$"):
        await rehearse(target, {}, [tmp_path], tmp_path)


async def test_a_task_that_is_not_made_in_time_is_told_and_its_process_ended(tmp_path: Path) -> None:
    target = write(tmp_path, write_pid_and_wait(tmp_path))
    with pytest.raises(InputError, match=r"task\.py@made: .* took longer than 5 s"):
        await rehearse(target, {}, [tmp_path], tmp_path, within_s=5)
    assert not is_running(tmp_path)


async def test_who_is_cancelled_has_seen_the_process_end(tmp_path: Path) -> None:
    work = asyncio.ensure_future(
        rehearse(write(tmp_path, write_pid_and_wait(tmp_path)), {}, [tmp_path], tmp_path)
    )
    await asyncio.to_thread(wait_for, (tmp_path / "pid").exists, timeout=60)
    work.cancel()
    await asyncio.wait([work])
    assert work.cancelled()
    assert not is_running(tmp_path)


def write_pid_and_wait(folder: Path) -> str:
    done = f"os.rename('{folder}/pid.new', '{folder}/pid')"
    return f"import os, time; open('{folder}/pid.new', 'w').write(str(os.getpid())); {done}; time.sleep(300)"


def is_running(folder: Path) -> bool:
    if not (folder / "pid").exists():
        return False  # ended before it came that far
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return False
    return True
