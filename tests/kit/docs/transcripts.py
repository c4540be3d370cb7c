"""Commands shown in pages, carried out: `python -m tests.kit.docs.transcripts PAGE...` writes them anew.

A fence ```console holds lines `$ command`, each followed by what it writes. All fences of a page are one
session in one folder, in which fences with a comment `<!-- file: NAME -->` are files. A line `…` stands for
lines left out, a `…` within a line for a part of it. What differs from run to run (ids, times, free disk) is
not compared.
"""

import itertools
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from tests.kit.docs.pages import Fence, fences

LEFT_OUT = "…"
ANY_LINES = r"(?:.*\n)*?"
PROGRESS = re.compile(r"\d[\d,]*/\d[\d,]*  ")
KILLED = re.compile(r"bash: line \d+: +\d+ Killed ")
"""A shell that is not a person's says this at any moment."""
COLUMNS = "100"
VARYING = (
    (r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_([\w.-]+?)_[2-9A-HJ-NP-Za-km-z]{8}\b", r"RUN_\1"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\b\d+:\d\d\b", "0:00"),
    (r"\b\d+(\.\d+)? s\b", "0 s"),
    (r"\banswered in \d+ ms\b", "answered in 0 ms"),
    (r" on \S+$", " on HOST"),
    (r"\b\d+\.\d GB free", "0 GB free"),
    (r"\b\d+ at once", "N at once"),
    (r"\bauto: \d+ here", "auto: N here"),
    (r"^error: (all \d+|\d+ of \d+) trials", "error: N trials"),
    (r"^(crashed:|safe|owed) +\d+( committed, \d+)?", r"\1 N\2"),
    (r"N committed, \d+", "N"),
    (r"─+", "─"),
    (r"  +", "  "),
    (r"/tmp/[\w./-]*?(?=/[\w.-]+\.yaml)", "FOLDER"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command, and what the page says that it writes."""

    command: str
    shown: str


class Session:
    """A shell that carries out one command after another, in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        kept = {key: value for key, value in os.environ.items() if not key.startswith("LAB_")}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=root,
            env={**kept, "COLUMNS": COLUMNS, "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.kill()
        self._shell.communicate()

    def write(self, name: str, text: str) -> None:
        path = Path(self.run("pwd"), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def run(self, command: str) -> str:
        """Carry out a command and return what it wrote."""
        mark = f"--- {secrets.token_hex(8)}"
        stdin, stdout = self._shell.stdin, self._shell.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{command}\necho; echo '{mark}'\n")
        stdin.flush()
        lines = list(itertools.takewhile(lambda line: line != f"{mark}\n", stdout))
        return "".join(line for line in lines if not KILLED.match(line)).strip("\n")


def steps(fence: Fence) -> Iterator[Step]:
    command, shown = "", list[str]()
    for line in fence.text.splitlines():
        if line.startswith("$ "):
            if command:
                yield Step(command=command, shown="\n".join(shown).rstrip("\n"))
            command, shown = line[2:], []
        else:
            shown.append(line)
    yield Step(command=command, shown="\n".join(shown).rstrip("\n"))


def is_like(shown: str, found: str) -> bool:
    """Whether what a page shows is what a command wrote, but for what varies and what is left out."""
    lines = [ANY_LINES if line == LEFT_OUT else f"{_pattern(line)}\n" for line in plain(shown)]
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in plain(found))) is not None


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split(LEFT_OUT))


def plain(text: str) -> list[str]:
    """Lines without what varies: times, ids, how often progress was shown."""
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return [line.rstrip() for line in text.splitlines() if not PROGRESS.match(line)]


def replay(page: Path, session: Session) -> Iterator[tuple[Fence, list[tuple[Step, str]]]]:
    """Carry out a page: each console fence with its steps and what they wrote."""
    for fence in fences(page.read_text("utf-8")):
        if fence.file is not None:
            session.write(fence.file, fence.text)
        elif fence.language == "console":
            yield fence, [(step, session.run(step.command)) for step in steps(fence)]


def renew(page: Path, root: Path) -> str:
    """The page with what its commands write now, where that is not what it shows."""
    text = page.read_text("utf-8")
    with Session(root) as session:
        replayed = list(replay(page, session))
    for fence, done in reversed(replayed):
        if all(is_like(step.shown, found) for step, found in done):
            continue
        lines = [line for step, found in done for line in (f"$ {step.command}", *found.splitlines())]
        new = "".join(f"{line.rstrip()}\n" for line in lines)
        text = text[: fence.start] + new + text[fence.start + len(fence.text) :]
    return text


def main() -> None:
    for page in map(Path, sys.argv[1:]):
        with TemporaryDirectory() as folder:
            text = renew(page, Path(folder))
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            print(f"wrote {page}: cut what is too long, and put a line {LEFT_OUT} in its place")


if __name__ == "__main__":
    main()
