"""The pages' own files: read once, by their own names."""

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def read_pages() -> dict[str, bytes]:
    """The pages' own files by name."""
    return dict(_walk(resources.files("labrunner.view") / "pages", ""))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif Path(entry.name).suffix in TYPES:
            yield f"{prefix}{entry.name}", entry.read_bytes()
