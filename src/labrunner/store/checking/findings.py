"""What a verification finds: problems, each with its place, and notes that are none."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from labrunner.records import schema
from labrunner.store.layout import RunPaths

_MOST: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is not as it was written."""

    file: str
    line: int | None
    what: str

    def __str__(self) -> str:
        """One line for people."""
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.what}"


@dataclass(slots=True)
class Findings:
    """Problems in the order in which they were found, up to a bound; notes."""

    paths: RunPaths
    is_ended: bool = False
    """Whether an owner ended the run in order: then nothing unfinished may be left."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def report(self, path: Path, what: str, *, line: int | None = None) -> None:
        """Keep a problem."""
        if len(self.problems) < _MOST:
            self.problems.append(Problem(file=self.paths.name(path), line=line, what=what))

    def shorten(self, path: Path, error: Exception) -> str:
        """An error's sentence without what a report of this file says anyway."""
        told = (
            str(error).removeprefix("reading ").removeprefix(f"{path}: ").replace(f"{self.paths.root}/", "")
        )
        return told.removesuffix("; try: lab verify").removesuffix("; nothing was changed")

    def report_unfinished(self, path: Path, what: str) -> None:
        """Keep what a crash or a live owner leaves: a problem only in a run that ended in order."""
        if self.is_ended:
            self.report(path, what)
        else:
            self.notes.append(f"{self.paths.name(path)}: {what}")

    def validate(self, path: Path, kind: str, data: bytes, *, line: int | None = None) -> None:
        """Check bytes against a schema."""
        try:
            schema.validate(kind, data)
        except ValueError as error:
            self.report(path, str(error), line=line)
