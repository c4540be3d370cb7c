"""Putting files and archives of others into a folder that nobody else uses yet, and nowhere else.

Rules: no path leaves the folder, by `..`, from the root, or through a link that was put there before: whoever
names paths may be a stranger, whose run is only looked at. Archives take no more room than they may.
"""

import os
import shutil
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from labrunner.errors import SandboxFailed
from labrunner.files.strangers.tree import walk

if TYPE_CHECKING:
    import tarfile

BLOCK: Final = 4096
"""What a file takes at least."""


class Misplaced(Exception):
    """Something that would come to lie outside of its folder, or take more room than it may."""


def find_place(folder: Path, path: str) -> Path:
    """Where a path below a folder lies, with all folders above it made. Raises Misplaced, OSError."""
    place = check_way(folder, path)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def check_way(folder: Path, path: str) -> Path:
    """Where a path below a folder lies, whether or not something is there. Raises Misplaced, OSError."""
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\0" in path or not parts:
        raise Misplaced(f"{path!r} does not lie below the folder that it belongs into")
    place = folder
    for part in parts:
        place = place / part
        if _is_link(place):
            raise Misplaced(f"{path!r} leads through a link, {str(place.relative_to(folder))!r}")
    return place


def copy_over(source: Path, target: Path) -> None:
    """Copy a folder's content over what is in another, or to where nothing is. Raises Misplaced, OSError."""
    if target.is_dir() and any(target.iterdir()):
        for found in walk(source, as_it_is=True):
            if not found.is_over and _is_link(target / found.path):
                raise Misplaced(f"{found.path!r} of {source} would be written through a link in {target}")
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file)


def unpack(path: Path, into: Path, most: int | None = None) -> None:
    """Unpack an archive into an empty folder, up to `most` bytes. Raises Misplaced, and what archives do."""
    filling = _Filling(into, most)
    if path.suffix == ".zip":
        import zipfile

        with zipfile.ZipFile(path) as zipped:
            for member in zipped.infolist():
                filling.weigh(member.file_size)
            zipped.extractall(into)  # which makes no links, and drops all that would lead out
    else:
        import tarfile  # here, because few workspaces are archives and every command would wait for it

        with tarfile.open(path) as archive:
            archive.extractall(into, filter=filling.take)


class _Filling:
    """A folder that an archive is unpacked into, one member after another."""

    def __init__(self, into: Path, most: int | None) -> None:
        self._into = into
        self._most = most
        self._taken = 0

    def take(self, member: "tarfile.TarInfo", place: str) -> "tarfile.TarInfo":
        """Let a member in that no link leads out: not every Python's own filter sees each of them."""
        import tarfile

        self.weigh(member.size)
        kept = tarfile.data_filter(member, place)
        parts = PurePosixPath(kept.name).parts
        # A link takes the place of what is there; all else would be written to where that leads.
        for way in (parts[:-1] if kept.issym() else parts, *([(kept.linkname,)] if kept.islnk() else [])):
            if way:
                check_way(self._into, "/".join(way))
        return kept

    def weigh(self, size: int) -> None:
        """Count a member."""
        self._taken += max(BLOCK, size)
        if self._most is not None and self._taken > self._most:
            raise Misplaced(f"what the archive holds takes more than {self._most} bytes")


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _copy_file(source: str, target: str) -> None:
    # Given a name here: an error that copytree itself collects has lost its number, and a full disk is one.
    with SandboxFailed.during("prepare", f"copying {source} to {target}"):
        shutil.copy2(source, target)
