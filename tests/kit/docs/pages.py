"""The pages of this repository: Markdown files that people read."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
FENCE = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A block of code in a page."""

    language: str
    text: str
    file: str | None
    """Where a comment above it says that it belongs: an example's file."""
    start: int
    """Offset of the text in the page."""


@cache
def tracked() -> tuple[Path, ...]:
    """Every file of the repository."""
    told = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = [ROOT / name for name in told.split("\0") if name]
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


def pages() -> list[Path]:
    """Every Markdown file, but those that are material of tests."""
    return [
        path for path in tracked() if path.suffix == ".md" and "tests" not in path.relative_to(ROOT).parts
    ]


def fences(text: str) -> Iterator[Fence]:
    for found in FENCE.finditer(text):
        yield Fence(
            language=found["language"], text=found["text"], file=found["file"], start=found.start("text")
        )


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()
