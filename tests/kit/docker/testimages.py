"""Images for tests, made from this machine's own files in seconds: no registry is asked for anything."""

import hashlib
import io
import subprocess
import tarfile
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused

PYTHON = Path("/usr/bin/python3")
BUSYBOX = Path("/bin/busybox")
LEFT_OUT = (
    "test",
    "idlelib",
    "lib2to3",
    "ensurepip",
    "tkinter",
    "distutils",
    "pydoc_data",
    "turtledemo",
    "dist-packages",
)
PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1234:1234:app:/home/app:/bin/sh\n"
GROUP = "root:x:0:\napp:x:1234:\n"
NOT_APPLETS = {"busybox", "sh", "ash", "python3"}


@dataclass(frozen=True)
class Recipe:
    """A small system: who is `sh`, what else is there."""

    name: str
    shell: Path = BUSYBOX
    python: bool = False
    tools: tuple[Path, ...] = ()
    without: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    files: tuple[tuple[str, str | bytes], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()
    """Like `/dev/null`."""
    libraries: tuple[str, ...] = ()
    """Of the C library, beside those that its programs need."""
    open_to_all: tuple[str, ...] = ()
    """Folders that every user may write."""
    brought: tuple[tuple[str, Path], ...] = ()
    """Names in the image, and files that are not this machine's own."""

    @property
    def tag(self) -> str:
        mark = hashlib.sha256(repr(self).encode() + Path(__file__).read_bytes()).hexdigest()[:12]
        return f"lab-test:{self.name}-{mark}"


ASH = Recipe(name="ash", python=True)
DASH = Recipe(name="dash", shell=Path("/bin/dash"), tools=(Path("/usr/bin/setpriv"),), without=("su",))
BASH = Recipe(name="bash", shell=Path("/bin/bash"))
APP_USER = Recipe(name="app", changes=("USER app", "ENV FROM_IMAGE=yes PYTHONPATH=/evil"))
ROOT_TWICE = Recipe(name="toor", users=("toor:x:0:0:root:/root:/bin/sh",))
VOLUME = Recipe(name="volume", changes=("VOLUME /data",))
TOOLS_IN_A_VOLUME = Recipe(name="tools", changes=("VOLUME /tools",), files=(("tools/judge", "honest\n"),))
BATTLEFIELD = Recipe(
    name="battlefield",
    python=True,
    changes=("VOLUME /tools",),
    files=(("tools/judge", "honest\n"), ("opt/tool", "honest\n"), ("usr/local/bin/tool", "honest\n")),
    open_to_all=("usr/local/bin",),
)
WORKBENCH = Recipe(
    name="workbench",
    python=True,
    files=(
        ("app/kept.txt", "as it was\n"),
        ("app/changed.txt", "before\n"),
        ("app/gone.txt", "soon gone\n"),
        ("app/folder/inner.txt", "inner\n"),
        ("app/emptied/old.txt", "old\n"),
        ("app/emptied/more/old.txt", "old\n"),
        ("app/turned/file.txt", "a folder's\n"),
        *((f"app/odd/{name}", "odd\n") for name in ("-rf", "two\nlines", "end\n", "caf\udce9", "stays")),
        ("usr/bin/judge", "honest\n"),
    ),
    links=(("app/way", "/usr/bin"), ("short", "/")),
    open_to_all=("app",),
)
"""Work lies in a folder of the image."""
GIT = Recipe(
    name="git", tools=(Path("/usr/bin/git"),), files=(("etc/gitconfig", "[safe]\n\tdirectory = *\n"),)
)
"""With git, and no repository: setups make one."""
WORK_IN_A_VOLUME = Recipe(
    name="workvolume",
    changes=("VOLUME /app/data",),
    files=(("app/data/old", "old\n"), ("app/data/kept", "kept\n")),
)
GLIBC = Recipe(
    name="glibc",
    tools=(Path("/bin/bash"),),
    libraries=("librt.so.1", "libpthread.so.0", "libdl.so.2", "libm.so.6"),
)
"""The least that a system with glibc has; no Python, no Node."""
CPLUSPLUS = replace(GLIBC, name="cplusplus", libraries=(*GLIBC.libraries, "libstdc++.so.6", "libgcc_s.so.1"))
"""The same with the library of C++, as Debian's images have it."""
NO_LIBC = Recipe(name="nolibc")
NO_MV = Recipe(name="nomv", shell=Path("/bin/dash"), without=("mv",))
NO_SHELL = Recipe(name="nosh", without=("sh", "ash", "busybox"))


async def ensure(engine: Engine, recipe: Recipe) -> str:
    """Make the image if this engine does not have it; its name."""
    try:
        await engine.image(recipe.tag)
    except EngineRefused:
        repo, _, tag = recipe.tag.partition(":")
        path = f"images/create?fromSrc=-&repo={repo}&tag={tag}"
        path += "".join(f"&changes={quote(change)}" for change in recipe.changes)
        headers = {"Content-Type": "application/x-tar"}
        packed = io.BytesIO(pack(recipe))
        async with aclosing(engine._connection().lines("POST", path, data=packed, headers=headers)) as news:
            async for _ in news:
                pass
    return recipe.tag


def pack(recipe: Recipe) -> bytes:
    """The system as a tar archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("bin", "etc", "tmp", "home/app", "root", "proc", "sys", "dev", "usr/bin", "lib64"):
            add_folder(archive, name, 0o1777 if name == "tmp" else 0o755)
        for name in recipe.open_to_all:
            add_folder(archive, name, 0o777)
        add_text(archive, "etc/passwd", PASSWD + "".join(f"{user}\n" for user in recipe.users))
        add_text(archive, "etc/group", GROUP)
        for name, content in recipe.files:
            add_bytes(archive, name, content if isinstance(content, bytes) else content.encode())
        if "busybox" not in recipe.without:
            archive.add(BUSYBOX, "bin/busybox")
            for applet in applets() - set(recipe.without) - NOT_APPLETS:
                add_link(archive, f"bin/{applet}", "busybox")
        if "sh" not in recipe.without:
            add_program(archive, recipe.shell, "bin/sh")
        for tool in recipe.tools:
            add_program(archive, tool, f"usr/bin/{tool.name}")
        add_further(archive, recipe)
        if recipe.python:
            add_python(archive)
    return packed.getvalue()


def add_further(archive: tarfile.TarFile, recipe: Recipe) -> None:
    for name, target in recipe.links:
        add_link(archive, name, target)
    for name in recipe.devices:
        add_device(archive, name)
    for library in recipe.libraries:
        [path] = Path("/lib").glob(f"*-linux-gnu/{library}")
        archive.add(path.resolve(), str(path)[1:])
    for name, path in recipe.brought:
        archive.add(path.resolve(), name)


@cache
def applets() -> frozenset[str]:
    told = subprocess.run([str(BUSYBOX), "--list"], capture_output=True, text=True, check=True)
    return frozenset(told.stdout.split())


def add_python(archive: tarfile.TarFile) -> None:
    program = PYTHON.resolve()
    add_program(archive, program, "usr/bin/python3")
    library = Path("/usr/lib") / program.name
    archive.add(library, str(library)[1:], filter=leave_out)
    for extension in (library / "lib-dynload").glob("*.so"):
        add_libraries(archive, extension)


def leave_out(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(member.name).parts[3:]
    return None if "__pycache__" in parts or set(parts[:1]) & set(LEFT_OUT) else member


def add_program(archive: tarfile.TarFile, program: Path, name: str) -> None:
    archive.add(program.resolve(), name)
    add_libraries(archive, program)


def add_libraries(archive: tarfile.TarFile, program: Path) -> None:
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    for word in told.split():
        if word.startswith("/") and word[1:] not in archive.getnames():
            archive.add(Path(word).resolve(), word[1:])


def add_folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    archive.addfile(member)


def add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    add_bytes(archive, name, text.encode())


def add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    archive.addfile(member)


def add_device(archive: tarfile.TarFile, name: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.devmajor, member.devminor, member.mode = tarfile.CHRTYPE, 1, 3, 0o666
    archive.addfile(member)


def labels_of(facts: dict[str, Any]) -> dict[str, str]:
    return dict(facts["Config"].get("Labels") or {})


class Images:
    """Images by recipe, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}

    async def __call__(self, recipe: Recipe) -> str:
        if recipe.tag not in self._made:
            engine = Engine()
            try:
                self._made[recipe.tag] = await ensure(engine, recipe)
            finally:
                await engine.close()
        return self._made[recipe.tag]
