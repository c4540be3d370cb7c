"""An image with musl and no other C library, as Alpine's are, made of packages of Debian."""

import platform
import subprocess
from pathlib import Path

from tests.kit.docker.testimages import Recipe


def fetch_musl(folder: Path) -> Recipe:
    """Fetch what such an image needs into a folder."""
    for package in ("musl", "bash-static"):
        subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=True)
        [file] = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg", "-x", file, folder], check=True)
    [loader] = folder.glob("lib/*-linux-musl/libc.so")
    bash = folder / "bin/bash-static"
    return Recipe(
        name="musl", brought=((f"lib/ld-musl-{platform.machine()}.so.1", loader), ("bin/bash", bash))
    )
