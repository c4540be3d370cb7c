"""Makes a task in a process of its own, to see which files of its project that reads.

Rules: started as `python -m …rehearsal FOLDER`, with what to make in FOLDER/asked and what was found in
FOLDER/told. Files count that Python opens to be read, whoever opens them; folders are not gone through. What
`.env` and its like hold is for this machine alone.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from labrunner.errors import InputError
from labrunner.files.uninterrupted import wait_out
from labrunner.sandbox.processes.kernel import PR_SET_PDEATHSIG, set_process_option
from labrunner.solve.resolving.loading import load_tasks

WITHIN_S: Final = 600.0
MOST_SAID: Final = 2000
"""Bytes of what a process said last, where it can't say what is wrong."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be made."""

    target: str
    arguments: dict[str, Any]
    roots: tuple[str, ...]
    project: str


class Rehearsed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the files, or a problem and where it is."""

    files: list[str] = []
    where: str = ""
    problem: str = ""


async def rehearse(
    target: str,
    arguments: Mapping[str, Any],
    roots: Sequence[Path],
    project: Path,
    *,
    within_s: float = WITHIN_S,
) -> list[Path]:
    """Files of a project that are read while a task of it is made. Raises InputError if it can't be.

    Who is cancelled has seen the process end.
    """
    asked = Rehearsal(
        target=target, arguments=dict(arguments), roots=tuple(map(str, roots)), project=str(project)
    )
    with tempfile.TemporaryDirectory(prefix="lab-") as name:
        folder = Path(name)
        (folder / "asked").write_bytes(msgspec.json.encode(asked))
        status = await _run(target, folder, within_s)
        try:
            told = msgspec.json.decode((folder / "told").read_bytes(), type=Rehearsed)
        except (OSError, ValueError) as error:
            said = _read_end(folder / "said")
            problem = f"a process that made the task once more ended with status {status}"
            raise InputError(target, f"{problem}: {said}" if said else problem) from error
    if told.problem:
        raise InputError(told.where, f"made once more, in a process of its own: {told.problem}")
    return [Path(text) for text in told.files]


async def _run(target: str, folder: Path, within_s: float) -> int:
    """Have the process make it, and end it and whatever it started when it takes too long."""
    with (folder / "said").open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __spec__.name, str(folder)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # what the task's code prints has been printed when it was made here
            stderr=said,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(within_s):
            return await process.wait()
    except TimeoutError as error:
        told = "made once more, in a process of its own, to see which files that reads: it took longer than "
        told += f"{within_s:g} s"
        raise InputError(target, told) from error
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await wait_out(asyncio.ensure_future(process.wait()))


def _read_end(path: Path) -> str:
    """The last that a process said, in one line."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST_SAID))
        return " ".join(file.read().decode(errors="replace").split())


class _Listener:
    """Hears of every file that is opened."""

    def __init__(self, project: Path) -> None:
        self._project = str(project)
        self._seen: dict[str, None] = {}
        self.is_listening = False

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not self.is_listening:
            return
        path, _, flags = args
        if isinstance(path, str | bytes | os.PathLike) and not _writes(flags):
            self._seen[os.path.abspath(os.fsdecode(path))] = None  # noqa: PTH100 - for every file that is opened

    def files(self) -> list[str]:
        """Those of the project, where they still are."""
        found = (Path(text) for text in self._seen if text.startswith(f"{self._project}{os.sep}"))
        return [str(path) for path in found if path.is_file() and not _is_made(path) and not _is_env(path)]


def _writes(flags: object) -> bool:
    return isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY


def _is_made(path: Path) -> bool:
    """Whether nobody wrote it: Python makes it anew."""
    return path.suffix == ".pyc"


def _is_env(path: Path) -> bool:
    """Whether it sets variables of one machine, secrets mostly: `.env`, `.env.local`, or a link to one."""
    return any(name.startswith(".env") for name in (path.name, path.resolve().name))


def main(folder: Path) -> None:
    """Make what is asked for."""
    set_process_option(PR_SET_PDEATHSIG, signal.SIGKILL)  # nobody else ends us if our parent is killed
    asked = msgspec.json.decode((folder / "asked").read_bytes(), type=Rehearsal)
    witness = _Listener(Path(asked.project))
    sys.addaudithook(witness.hear)
    sys.path[:0] = asked.roots
    witness.is_listening = True
    try:
        load_tasks(asked.target, asked.arguments)
        told = Rehearsed(files=witness.files())
    except InputError as error:
        told = Rehearsed(where=error.where, problem=error.problem)
    witness.is_listening = False
    (folder / "told").write_bytes(msgspec.json.encode(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
