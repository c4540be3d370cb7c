"""Which sandbox a Python task gets: `docker`, `bubblewrap`, `process`, or fields as in an experiment file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.solve.task import SandboxChoice

DEFAULT_IMAGE: Final = "python:3.12-bookworm"
"""For `sandbox="docker"` where no Dockerfile lies beside the task's file."""
_COMPOSE: Final = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_NAMES: Final = {"local": "process"}


def sandbox_section(override: str | None, chosen: SandboxChoice | None, folder: Path) -> dict[str, Any]:
    """The `sandbox` section of an experiment file; for a task without a sandbox, the least of all."""
    if override is not None:
        chosen = {**chosen, "kind": override} if isinstance(chosen, Mapping) else override
    if chosen is None:
        return {"kind": "process"}
    if isinstance(chosen, Mapping):
        return _with_image(dict(chosen), folder) if chosen.get("kind") == "docker" else dict(chosen)
    kind, detail = chosen if isinstance(chosen, tuple) else (chosen, None)
    kind = _NAMES.get(kind, kind)
    if kind != "docker":
        if detail is not None:
            raise InputError("sandbox", f"{kind} takes no file or image, found {detail!r}")
        return {"kind": kind}
    return {"kind": "docker", **_docker(detail, folder)}


def _docker(detail: str | None, folder: Path) -> dict[str, Any]:
    if detail is None:
        return _beside(folder)
    path = folder / detail
    if path.name in _COMPOSE or path.suffix in {".yaml", ".yml"}:
        raise _no_compose(detail)
    if path.is_dir():
        return {"build": str(path)}
    if path.is_file():
        if path.name != "Dockerfile":
            raise InputError("sandbox", f"{detail}: a file to build from must be called Dockerfile")
        return {"build": str(path.parent)}
    return {"image": detail}


def _beside(folder: Path) -> dict[str, Any]:
    """What lies beside the task's file, else the default image."""
    for name in _COMPOSE:
        if (folder / name).exists():
            raise _no_compose(str(folder / name))
    return {"build": str(folder)} if (folder / "Dockerfile").is_file() else {"image": DEFAULT_IMAGE}


def _with_image(section: dict[str, Any], folder: Path) -> dict[str, Any]:
    return section if section.get("image") or section.get("build") else {**_beside(folder), **section}


def _no_compose(name: str) -> InputError:
    return InputError(
        "sandbox", f"{name}: several containers for one trial are not built; name an image or a Dockerfile"
    )
