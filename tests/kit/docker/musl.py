"""An image with musl and no other C library, as Alpine's are: made of packages, without a registry of images.

musl itself and a static bash are Debian's; the library of C++ is the one that wheels for musl bring along.
"""

import platform
import subprocess
from pathlib import Path
from zipfile import ZipFile

from tests.kit.docker.testimages import Recipe

WHEEL = "pyzmq==27.3.0"
"""Small, and linked to the library of C++."""


def fetch_musl(folder: Path) -> Recipe:
    """Fetch what such an image needs into a folder."""
    machine = platform.machine()
    for package in ("musl", "bash-static"):
        subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
        [file] = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg", "-x", file, folder], check=True)
    [loader] = folder.glob("lib/*-linux-musl/libc.so")
    return Recipe(
        name="musl",
        brought=(
            (f"lib/ld-musl-{machine}.so.1", loader),
            ("bin/bash", folder / "bin/bash-static"),
            *fetch_libraries(folder, machine),
        ),
    )


def fetch_libraries(folder: Path, machine: str) -> list[tuple[str, Path]]:
    """The library of C++ and what it needs, under the names that programs and it ask for."""
    asked = ["--no-deps", "--only-binary=:all:", f"--platform=musllinux_1_2_{machine}", WHEEL]
    subprocess.run(["pip", "download", "-qq", "--python-version=3.11", *asked], cwd=folder, check=True)
    [wheel] = folder.glob("*.whl")
    with ZipFile(wheel) as packed:
        packed.extractall(folder)
    [cplusplus] = folder.glob("*.libs/libstdc++-*")
    [compiler] = folder.glob("*.libs/libgcc_s-*")
    named = {"libstdc++.so.6": cplusplus, "libgcc_s.so.1": compiler, compiler.name: compiler}
    return [(f"lib/{name}", path) for name, path in named.items()]
