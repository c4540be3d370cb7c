"""The formats that a run can leave in."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from labrunner.errors import InputError, StoreError
from labrunner.interop.exporters import flat, html, inspect_log, junit, markdown
from labrunner.query.output import replacing
from labrunner.runner.reports.lookup import RunInFull
from labrunner.runner.reports.results import check_rows
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format: what its files are called, and who writes them."""

    ending: str
    write: Callable[[RunInFull, Path], tuple[Path, ...]]
    """Writes a run to a path, and tells which files it made."""


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "inspect": Format(ending=".eval", write=inspect_log.write),
        "csv": Format(ending=".csv", write=lambda seen, target: flat.write_table(seen.paths, target)),
        "parquet": Format(
            ending=".parquet", write=lambda seen, target: flat.write_parquet(seen.paths, target)
        ),
        "junit": Format(ending=".junit.xml", write=junit.write),
        "markdown": Format(ending=".md", write=markdown.write),
        "html": Format(ending=".html", write=html.write),
    }
)


ROWS: Final[Mapping[str, Callable[[RunPaths, Path], tuple[Path, ...]]]] = MappingProxyType(
    {"csv": flat.write_table, "parquet": flat.write_parquet}
)
"""Formats of rows, for which nothing has to be computed."""


def export_rows(paths: RunPaths, name: str, output: Path | None) -> tuple[Path, ...]:
    """Write the rows of a run, without computing anything from them."""
    check_rows(paths)
    target = output or Path(f"{read_run(paths).run_id}{FORMATS[name].ending}")
    with _writing(target), replacing(target) as place:
        ROWS[name](paths, place)
    return (target,)


def export(seen: RunInFull, name: str, output: Path | None) -> tuple[Path, ...]:
    """Write a run in a format, to `output` or to a file in the working directory called like the run."""
    if name not in FORMATS:
        raise InputError("--to", f"there is no format {name!r}; there are: {', '.join(FORMATS)}")
    chosen = FORMATS[name]
    target = output or default_target(seen, name)
    with _writing(target):
        if name == "inspect":
            return chosen.write(seen, target)
        with replacing(target) as place:
            chosen.write(seen, place)
        return (target,)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise StoreError(f"writing {target}: {error.strerror or error}") from error


def default_target(seen: RunInFull, name: str) -> Path:
    """Where an export goes when nobody says: logs of several variants go into a folder."""
    if name == "inspect" and len(seen.results.experiment.variants) > 1:
        return Path(f"{seen.record.run_id}-inspect")
    return Path(f"{seen.record.run_id}{FORMATS[name].ending}")
