"""Commands shown in pages, carried out: `python -m tests.kit.docs.transcripts PAGE...` writes them anew.

A fence ```console holds lines `$ command`, each followed by what it writes. All fences of a page are one
session in one folder, in which fences with a comment `<!-- file: NAME -->` are files. A line `…` stands for
lines left out, a `…` within a line for a part of it. What differs from run to run (ids, times, free disk) is
not compared; but what a page calls by one id is one run, and a page is written anew of one session only.
"""

import itertools
import os
import re
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
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
RUN_ID = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_([\w.-]+?)_[2-9A-HJ-NP-Za-km-z]{8}\b"
VARYING = (
    (RUN_ID, r"RUN_\1"),
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
    return align(shown, found) is not None


def align(shown: str, found: str) -> list[tuple[str, str]] | None:
    """Lines of a page, each with the one that a command wrote there; None where they are not alike.

    Lines that stand for others, and those that tell how far a run is, stand beside themselves.
    """
    wrote = _without_progress(found)
    patterns = [
        ANY_LINES if line == LEFT_OUT else f"({_pattern(plain(line))}\n)" for line in _without_progress(shown)
    ]
    text = "".join(f"{plain(line)}\n" for line in wrote)
    match = re.fullmatch("".join(patterns), text)
    if match is None:
        return None
    places = (wrote[text.count("\n", 0, match.start(number + 1))] for number in range(len(match.groups())))
    return [
        (line, line if line == LEFT_OUT or PROGRESS.match(line) else next(places))
        for line in shown.splitlines()
    ]


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split(LEFT_OUT))


def plain(line: str) -> str:
    """A line without what varies: times, ids."""
    for pattern, instead in VARYING:
        line = re.sub(pattern, instead, line)
    return line.rstrip()


def _without_progress(text: str) -> list[str]:
    """Lines but those that tell how far a run is: how often it is shown varies."""
    return [line for line in text.splitlines() if not PROGRESS.match(line)]


def confused(done: Iterable[tuple[Step, str]]) -> set[str]:
    """Ids of runs under which a page shows two runs, or one run that it also calls by another id."""
    pairs = {
        (shown[0], found[0])
        for step, wrote in done
        for line, other in align(step.shown, wrote) or ()
        for shown, found in zip(re.finditer(RUN_ID, line), re.finditer(RUN_ID, other), strict=False)
    }
    names, runs = Counter(name for name, _ in pairs), Counter(run for _, run in pairs)
    return {name for name, run in pairs if names[name] > 1 or runs[run] > 1}


def replay(page: Path, session: Session) -> Iterator[tuple[Fence, list[tuple[Step, str]]]]:
    """Carry out a page: each console fence with its steps and what they wrote."""
    for fence in fences(page.read_text("utf-8")):
        if fence.file is not None:
            session.write(fence.file, fence.text)
        elif fence.language == "console":
            yield fence, [(step, session.run(step.command)) for step in steps(fence)]


def renew(page: Path, root: Path) -> str:
    """The page with what its commands write now, where anything of it is not what it shows."""
    text = page.read_text("utf-8")
    with Session(root) as session:
        replayed = list(replay(page, session))
    done = [each for _, own in replayed for each in own]
    if all(is_like(step.shown, found) for step, found in done) and not confused(done):
        return text
    for fence, own in reversed(replayed):
        lines = [line for step, found in own for line in (f"$ {step.command}", *_refresh(step, found))]
        new = "".join(f"{line.rstrip()}\n" for line in lines)
        text = text[: fence.start] + new + text[fence.start + len(fence.text) :]
    return text


def _refresh(step: Step, found: str) -> list[str]:
    """What a command wrote: where the page shows as much, cut as it is there."""
    aligned = align(step.shown, found)
    if aligned is None:
        return found.splitlines()
    return [shown if LEFT_OUT in shown else wrote for shown, wrote in aligned]


def main() -> None:
    for page in map(Path, sys.argv[1:]):
        with TemporaryDirectory() as folder:
            text = renew(page, Path(folder))
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            print(f"wrote {page}: cut what is too long, and put a line {LEFT_OUT} in its place")


if __name__ == "__main__":
    main()
