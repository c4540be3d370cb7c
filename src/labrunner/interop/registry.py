"""The formats that a run can leave in."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeGuard

from labrunner.errors import InputError, StoreError
from labrunner.interop.exporter import Exporter
from labrunner.query.output import replacing
from labrunner.registry import Registry
from labrunner.runner.reports.lookup import RunInFull, read_in_full
from labrunner.runner.reports.results import check_rows
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_run


def _is_exporter(found: object) -> TypeGuard[Exporter]:
    return isinstance(found, Exporter)


EXPORTERS: Final = Registry(
    group="labrunner.exporters",
    noun="format",
    built_in={
        "inspect": "labrunner.interop.exporters.inspect_log:FORMAT",
        "csv": "labrunner.interop.exporters.flat:CSV",
        "parquet": "labrunner.interop.exporters.flat:PARQUET",
        "junit": "labrunner.interop.exporters.junit:FORMAT",
        "markdown": "labrunner.interop.exporters.markdown:FORMAT",
        "html": "labrunner.view.handout.onefile:FORMAT",
    },
    accepts=_is_exporter,
    wanted="an Exporter",
)


def find_exporter(name: str) -> Exporter:
    """Load a format."""
    return EXPORTERS.find(name, "--to")


def export_run(paths: RunPaths, name: str, output: Path | None, *, is_full: bool = False) -> tuple[Path, ...]:
    """Write a run; one of rows without computing anything from them."""
    chosen = find_exporter(name)
    if is_full and chosen.write_full is None:
        raise InputError("--full", f"{name} never leaves anything out; it is for formats that cut long texts")
    if chosen.write_rows is None:
        return export(read_in_full(paths), name, output, is_full=is_full)
    check_rows(paths)
    target = output or Path(f"{read_run(paths).run_id}{chosen.ending}")
    with _writing(target), replacing(target) as place:
        chosen.write_rows(paths, place)
    return (target,)


def export(seen: RunInFull, name: str, output: Path | None, *, is_full: bool = False) -> tuple[Path, ...]:
    """Write a run in a format, to `output` or to a file in the working directory called like the run."""
    chosen = find_exporter(name)
    target = output or default_target(seen, name)
    with _writing(target):
        if chosen.has_own_files:
            return chosen.write(seen, target)
        with replacing(target) as place:
            (chosen.write_full if is_full and chosen.write_full else chosen.write)(seen, place)
        return (target,)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise StoreError(f"writing {target}: {error.strerror or error}") from error


def default_target(seen: RunInFull, name: str) -> Path:
    """Where an export goes when nobody says: several files go into a folder."""
    chosen = find_exporter(name)
    if chosen.is_folder(seen):
        return Path(f"{seen.record.run_id}-{name}")
    return Path(f"{seen.record.run_id}{chosen.ending}")
