"""Programs of this host that are carried into images: with the libraries that they need, and their loader.

Rule: started by the loader that lies beside them, they need nothing of an image, be it with another C
library, with an older one, or with none.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from labrunner.depot.package_tools import InstallFailed

LIBRARIES: Final = "libraries"
LOADER: Final = "loader.so"
_LINE: Final = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$")
_ELF: Final = b"\x7fELF"


def carry_libraries(programs: Sequence[Path], folder: Path) -> None:
    """Copy the libraries of programs, and of libraries, into a folder. Raises InstallFailed."""
    folder.mkdir(exist_ok=True)
    search = os.pathsep.join(sorted({str(program.parent) for program in programs}))
    for name, path in _find_libraries(programs, search).items():
        target = LOADER if name.startswith("ld-") else name
        if not (folder / target).exists():
            shutil.copyfile(path, folder / target)
            (folder / target).chmod(0o755)
    if not (folder / LOADER).exists():
        raise InstallFailed(f"the loader of this host's programs was not found by ldd in {search}")


def is_binary(path: Path) -> bool:
    """Whether a file is a program or a library."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == _ELF


def _find_libraries(programs: Sequence[Path], search: str) -> dict[str, Path]:
    """Names that programs ask for, and where this host has them."""
    every = [str(program) for program in programs]
    done = subprocess.run(
        ["ldd", *every],
        env={**os.environ, "LD_LIBRARY_PATH": search},
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Path] = {}
    kept = {program.parent for program in programs}  # libraries that lie beside their users are found there
    for line in done.stdout.splitlines():
        if (match := _LINE.match(line)) is not None:
            path = Path(match[2])
            if not any(path.is_relative_to(folder) for folder in kept):
                found.setdefault(Path(match[1] or path.name).name, path)
    return found
