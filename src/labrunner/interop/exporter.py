"""The door to other people's formats: what an exporter says of itself, and how it writes a run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labrunner.runner.reports.lookup import RunInFull
from labrunner.store.layout import RunPaths


def _never(seen: RunInFull) -> bool:
    del seen
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """One format: what its files are called, and who writes them."""

    ending: str
    """Of a file of this format, with its dot."""
    write: Callable[[RunInFull, Path], tuple[Path, ...]]
    """Writes a run to a path, and tells which files it made."""
    write_rows: Callable[[RunPaths, Path], tuple[Path, ...]] | None = None
    """The same for a format of rows, for which nothing has to be computed: asked instead of `write`."""
    write_full: Callable[[RunInFull, Path], tuple[Path, ...]] | None = None
    """The same as `write`, with nothing cut; None for a format that never cuts."""
    is_folder: Callable[[RunInFull], bool] = _never
    """Whether a run makes a folder of files, and not one file."""
    has_own_files: bool = False
    """Whether it makes its files where they belong, one or several. Else it writes one file under another
    name, which takes its place when it is whole, and which can be printed."""
