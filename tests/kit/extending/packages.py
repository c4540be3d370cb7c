"""Packages that add to lab: written to a folder as an installer would leave them, or as a wheel."""

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

EntryPoints = Mapping[str, Mapping[str, str]]
"""Group to name to module:attribute."""


def write_package(
    site: Path, name: str, files: Mapping[str, str], points: EntryPoints, version: str = "1.0"
) -> Path:
    """Write a package into a folder of packages; the folder belongs onto PYTHONPATH."""
    for path, text in _all_files(name, files, points, version).items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    return site


def write_wheel(
    folder: Path, name: str, files: Mapping[str, str], points: EntryPoints, version: str = "1.0"
) -> Path:
    """Write the same package as a wheel."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    whole = _all_files(name, files, points, version) | {
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    }
    lines = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in whole.items()]
    record = "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"
    wheel = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**whole, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return wheel


def _all_files(name: str, files: Mapping[str, str], points: EntryPoints, version: str) -> dict[str, str]:
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    sections = [
        f"[{group}]\n" + "".join(f"{each} = {target}\n" for each, target in names.items())
        for group, names in points.items()
    ]
    return {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/entry_points.txt": "\n".join(sections),
    }


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
