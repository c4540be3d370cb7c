"""Commands shown in pages, carried out for real: `python -m tests.docs.transcripts PAGE...` writes them anew.

A fence ```console holds lines `$ command`, each followed by what it writes. All fences of a
page are one session in one folder, in which fences with a comment `<!-- file: NAME -->` are files. A line `…`
stands for lines left out. What differs from run to run (ids, times, sizes of disks) is compared as such.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.docs.pages import Fence, fences

LEFT_OUT = "…"
ANY_LINES = r"(?:.*\n)*?"
PROGRESS = re.compile(r"\d[\d,]*/\d[\d,]*  ")
COLUMNS = "100"
VARYING = (
    (r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_([\w.-]+?)_[2-9A-HJ-NP-Za-km-z]{8}\b", r"RUN_\1"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\b\d+:\d\d\b", "0:00"),
    (r" +\d+(\.\d+)? s\b", " 0 s"),
    (r"\b\d+\.\d GB free", "0 GB free"),
    (r"\b\d+ at once", "N at once"),
    (r"\bauto: \d+ here", "auto: N here"),
    (r"/tmp/[\w./-]*?(?=/[\w.-]+\.yaml)", "FOLDER"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command, and what the page says that it writes."""

    command: str
    shown: str


@dataclass(slots=True, kw_only=True)
class Session:
    """A shell's folder, and where in it we are."""

    root: Path
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.root

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def run(self, command: str) -> str:
        """Carry out a command in bash; `cd` holds for those after it."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("LAB_")}
        bin_folder = Path(sys.executable).parent
        env = {**kept, "COLUMNS": COLUMNS, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
        where = self.root / ".where"
        done = subprocess.run(
            ["bash", "-c", f"{command}\nstatus=$?; pwd >{where}; exit $status"],
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
        )
        self.folder = Path(where.read_text().strip())
        return done.stdout.rstrip("\n")


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
    lines = [ANY_LINES if line == LEFT_OUT else f"{re.escape(line)}\n" for line in plain(shown)]
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in plain(found))) is not None


def plain(text: str) -> list[str]:
    """Lines without what varies: times, ids, how often progress was shown."""
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text)
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
    for fence, done in reversed(list(replay(page, Session(root=root)))):
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
