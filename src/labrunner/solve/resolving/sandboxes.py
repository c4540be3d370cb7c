"""Which sandbox a Python task gets: a kind by name, a file or an image with it, or fields as in a file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.sandbox_kinds import PROCESS, has_images
from labrunner.solve.resolving.compose import COMPOSE_NAMES, Surroundings, is_compose, read_compose
from labrunner.solve.resolving.task import SandboxChoice

DEFAULT_IMAGE: Final = "python:3.12-bookworm"
"""For a kind with images where no Dockerfile lies beside the task's file."""
_NAMES: Final = {"local": PROCESS}


def find_surroundings(override: str | None, chosen: SandboxChoice | None, folder: Path) -> Surroundings:
    """Where attempts of a task run; for a task without a sandbox, the least of all."""
    if override is not None:
        chosen = {**chosen, "kind": override} if isinstance(chosen, Mapping) else override
    if chosen is None:
        return Surroundings(sandbox={"kind": PROCESS})
    if isinstance(chosen, Mapping):
        if not has_images(chosen.get("kind")):
            return Surroundings(sandbox=dict(chosen))
        return _with_image(dict(chosen), folder)
    kind, detail = chosen if isinstance(chosen, tuple) else (chosen, None)
    kind = _NAMES.get(kind, kind)
    if not has_images(kind):
        if detail is not None:
            raise InputError("sandbox", f"{kind} takes no file or image, found {detail!r}")
        return Surroundings(sandbox={"kind": kind})
    found = _imaged(detail, folder)
    return replace(found, sandbox={"kind": kind, **found.sandbox})


def _imaged(detail: str | None, folder: Path) -> Surroundings:
    if detail is None:
        return _beside(folder)
    path = folder / detail
    if is_compose(path.name):
        if not path.is_file():
            raise InputError("sandbox", f"there is no compose file {path}")
        return read_compose(path)
    if path.is_dir():
        return _made_from(build=str(path))
    if path.is_file():
        if path.name != "Dockerfile":
            raise InputError("sandbox", f"{detail}: a file to build from must be called Dockerfile")
        return _made_from(build=str(path.parent))
    return _made_from(image=detail)


def _beside(folder: Path) -> Surroundings:
    """What lies beside the task's file, else the default image."""
    for name in COMPOSE_NAMES:
        if (folder / name).exists():
            return read_compose(folder / name)
    has_dockerfile = (folder / "Dockerfile").is_file()
    return _made_from(build=str(folder)) if has_dockerfile else _made_from(image=DEFAULT_IMAGE)


def _made_from(**source: str) -> Surroundings:
    return Surroundings(sandbox=dict(source))


def _with_image(section: dict[str, Any], folder: Path) -> Surroundings:
    if section.get("image") or section.get("build"):
        return Surroundings(sandbox=section)
    beside = _beside(folder)
    return replace(beside, sandbox={**beside.sandbox, **section})
