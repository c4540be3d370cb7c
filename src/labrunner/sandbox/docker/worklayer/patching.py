"""What was changed in a git work tree of the image, as a patch: made in a container that is thrown away.

Rules: git never runs on this host, nor where a grader will. The repository is the image's own (commits,
index, configuration and hooks that an agent left in `.git` are not put there), so the patch leads from the
image's commit to the files as they are, whatever the agent did to the history. What else git may be led to
run by a work tree runs in a container without network that nobody uses again.
"""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from labrunner.files.layering.layerfile import REPOSITORY
from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.connection import Json
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.reconnect import outlast
from labrunner.sandbox.docker.worklayer.restoring import put_layer
from labrunner.sandbox.docker.wrapper.script import quote

MOST: Final = 64 * 1024 * 1024
BASE_S: Final = 60.0
DIFF_S: Final = 600.0
LATER_S: Final = 60.0
"""How much longer an engine is waited for than what it runs."""
_HOME: Final = "/.lab-patch"
_BASE: Final = """
command -v git >/dev/null 2>&1 || { echo 'the image has no git'; exit 3; }
mkdir -p {home} && printf '[safe]\\n\\tdirectory = *\\n' > {home}/.gitconfig || exit 1
HOME={home} git -C {workdir} rev-parse --verify -q HEAD > {home}/base 2>/dev/null && exit 0
echo 'it is no git work tree with a commit'; exit 3
"""
# What has a byte or more is large: it is added to one pack, where else each would be a file of its own.
_DIFF: Final = """
export HOME={home} GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
cd {workdir} || {{ : > {home}/patch; exit 0; }}
set -- -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.attributesFile=/dev/null
git "$@" -c core.bigFileThreshold=1 add -A -- . || exit 1
git "$@" diff --cached --binary --no-color --no-ext-diff --no-textconv --no-renames --ignore-submodules=all \
  --src-prefix=a/ --dst-prefix=b/ "$(cat {home}/base)" > {home}/patch
"""


IDLE: Final = ("/bin/sh", "-c", "sleep 3600")


@asynccontextmanager
async def made_aside(engine: Engine, config: Json, name: str, over: list[str]) -> AsyncIterator[str]:
    """A container that runs, and is then ended and put among those that are `over`, to be removed.

    That can take minutes where much was written, and nobody waits for it here. One that a killed process
    leaves is a probe's.
    """
    container = await outlast(lambda: engine.create(config, name))
    try:
        await engine.start(container)
        yield container
    finally:
        over.append(container)
        await engine.kill(container)


class NoPatch(Exception):
    """Why there is none; for people."""


async def make_patch(engine: Engine, container: str, layer: Path, workdir: str) -> bytes:
    """The patch, made in a container of the image that runs and does nothing. Raises NoPatch."""
    place = quote(workdir)
    await _run(engine, container, _BASE.replace("{home}", _HOME).replace("{workdir}", place), BASE_S)
    try:
        await put_layer(engine, container, layer, without=REPOSITORY)
    except EngineRefused as refusal:
        raise NoPatch(str(refusal)) from refusal
    await _run(engine, container, _DIFF.format(home=_HOME, workdir=place), DIFF_S)
    packed = io.BytesIO()
    async with aclosing(engine.archive(container, f"{_HOME}/patch")) as pieces:
        async for piece in pieces:
            packed.write(piece)
            if packed.tell() > MOST:
                raise NoPatch(f"it is larger than {MOST >> 20} MiB")
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        member = archive.next()
        content = archive.extractfile(member) if member is not None and member.isreg() else None
        return content.read() if content is not None else b""


async def _run(engine: Engine, container: str, script: str, limit_s: float) -> None:
    try:
        async with asyncio.timeout(limit_s):
            argv = ("/bin/sh", "-c", script)
            status, said = await engine.carry_out(container, argv, limit_s + LATER_S)
    except TimeoutError as error:
        raise NoPatch(f"git did not end within {limit_s:.0f} s") from error
    if status != 0:
        raise NoPatch(said.strip() or f"git ended with {status}")
