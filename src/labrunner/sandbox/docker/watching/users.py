"""Who is who in an image: whether a user is root there, whatever it is called.

A user of another number than root's can't touch the wrapper. So whoever is not known to be another counts as
root: a name that the image does not have (its setup may make it), or a number that wraps around.
"""

import asyncio
import io
import tarfile
from contextlib import aclosing
from typing import Final

from labrunner.sandbox.docker.engine.client import Engine
from labrunner.sandbox.docker.engine.engine_errors import EngineRefused
from labrunner.sandbox.docker.engine.replies import ImageFacts
from labrunner.sandbox.docker.watching.pristine import unstarted

PASSWD: Final = "/etc/passwd"
MOST: Final = 1 << 20
NO_CHANGE: Final = 2**32 - 1
"""This number, to the kernel, is whoever one was before."""


class Users:
    """Users of images, looked up once an image, and only for names."""

    def __init__(self, engine: Engine) -> None:
        """Know nobody yet."""
        self._engine = engine
        self._passwd: dict[str, str] = {}
        self.rest()

    def rest(self) -> None:
        """Let go of the event loop."""
        self._lock = asyncio.Lock()

    async def is_root(self, image: ImageFacts, user: str | None) -> bool:
        """Whether a phase that asks for this user, or else gets the image's own, is the wrapper's."""
        name = login(user or image.user)
        if not is_name(name):
            return is_roots_number(name)
        if name == "root":
            return True
        async with self._lock:
            if image.id not in self._passwd:
                self._passwd[image.id] = await self._read_passwd(image)
        return is_roots_number(find_number(name, self._passwd[image.id]))

    async def _read_passwd(self, image: ImageFacts) -> str:
        """Read an image's list of users; none where it has no such file."""
        async with unstarted(self._engine, image.id) as container:
            try:
                return unpack(await self._fetch(container))
            except EngineRefused as refusal:
                if not refusal.is_not_found:
                    raise
                return ""

    async def _fetch(self, container: str) -> bytes:
        packed = b""
        async with aclosing(self._engine.archive(container, PASSWD)) as chunks:
            async for chunk in chunks:
                packed += chunk
                if len(packed) > MOST:
                    break
        return packed


def login(user: str) -> str:
    """The user without its group."""
    return user.split(":")[0] or "0"


def is_name(user: str) -> bool:
    """Whether a user is asked for by name."""
    return not (user.isascii() and user.isdecimal())


def is_roots_number(number: str) -> bool:
    """Whether a number is root's, or might as well be."""
    return is_name(number) or int(number) == 0 or int(number) >= NO_CHANGE


def find_number(name: str, passwd: str) -> str:
    """The number of a user as the wrapper finds it; empty when there is none."""
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[0] == name:
            return fields[2]
    return ""


def unpack(packed: bytes) -> str:
    """The text of the one file in an archive; empty for anything else."""
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            member = archive.next()
            content = archive.extractfile(member) if member is not None and member.isfile() else None
            return content.read().decode(errors="replace") if content is not None else ""
    except tarfile.TarError:
        return ""
