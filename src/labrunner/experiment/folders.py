"""What a folder, an archive or a file of the author's holds, as a digest.

A folder's digest covers, sorted by path: each file's content and whether its owner may execute it, each
symbolic link's target (links are not followed), each empty folder. It covers neither where the folder lies,
nor times, owners and other modes. In folders of agents and graders, what tools leave behind (`__pycache__`,
`*.pyc`, `.git`, `.lab`) is left out; a workspace, and what an image is built from, is covered as it is, since
all of it is used.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from labrunner.errors import InputError
from labrunner.experiment.resolved import Folder
from labrunner.records.encoding import canonical

LEFT_BEHIND: Final = frozenset({"__pycache__", ".git", ".lab"})
ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".zip")
_CHUNK: Final = 1 << 20


def digest_folder(path: Path, *, everything: bool = False) -> str:
    """Digest of what a folder holds; without `everything`, what tools leave behind is left out."""
    return canonical.digest(["folder_v1", sorted(_entries(path, "", everything=everything))])


def digest_file(path: Path) -> str:
    """Digest of a file's content."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return f"sha256:{state.hexdigest()}"


def _entries(folder: Path, prefix: str, *, everything: bool) -> Iterator[tuple[str, str, str]]:
    """Give path, kind and content's digest of everything below a folder."""
    empty = True
    with os.scandir(folder) as found:
        for entry in found:
            if not everything and (entry.name in LEFT_BEHIND or entry.name.endswith(".pyc")):
                continue
            empty = False
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(Path(entry.path), f"{prefix}{entry.name}/", everything=everything)
            else:
                yield _entry(Path(entry.path), prefix + entry.name)
    if empty:
        yield (prefix, "folder", "")


def _entry(path: Path, name: str) -> tuple[str, str, str]:
    mode = path.lstat().st_mode
    _check_name(name)
    if stat.S_ISLNK(mode):
        return (name, "link", str(path.readlink()))
    if not stat.S_ISREG(mode):
        raise InputError(
            str(path), "is no plain file, folder or link (a socket or FIFO?), so it can't be handed on"
        )
    return (name, "program" if mode & stat.S_IXUSR else "file", digest_file(path))


def _is_archive(path: Path) -> bool:
    """Whether a file begins, or a .zip ends, as an archive does."""
    import tarfile  # here, because few workspaces are archives and every command would wait for it
    import zipfile

    return zipfile.is_zipfile(path) if path.suffix == ".zip" else tarfile.is_tarfile(path)


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(ascii(name), "a file's name is not UTF-8; rename it") from None


class Contents:
    """Folders, archives and files as an experiment names them, each read once however many tasks name it."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._digests: dict[tuple[Path, str], str] = {}

    def tools(self, path: Path) -> Folder:
        """Give a folder of an agent's or grader's programs."""
        return self._folder(path, everything=False)

    def context(self, path: Path) -> Folder:
        """Give a folder that an image is built from: all of it is handed to the builder."""
        return self._folder(path, everything=True)

    def workspace(self, path: Path) -> Folder:
        """Give a folder or archive that a workspace starts with."""
        if path.is_file():
            if not path.name.endswith(ARCHIVES):
                raise InputError("", f"'{path}' is neither a folder nor an archive ({', '.join(ARCHIVES)})")
            return self._keep(path, "archive")
        return self._folder(path, everything=True)

    def source(self, path: Path) -> Folder:
        """Give a file or folder that is copied into a workspace."""
        if path.is_dir():
            return self._keep(path, "everything")
        if not path.is_file():
            raise InputError(
                "", f"'{path}' is no file" if path.exists() else f"the file '{path}' does not exist"
            )
        return self._keep(path, "file")

    def _folder(self, path: Path, *, everything: bool) -> Folder:
        if not path.is_dir():
            raise InputError(
                "", f"'{path}' is no folder" if path.exists() else f"the folder '{path}' does not exist"
            )
        return self._keep(path, "everything" if everything else "tools")

    def _keep(self, path: Path, kind: str) -> Folder:
        path = path.resolve()
        if (path, kind) not in self._digests:
            self._digests[path, kind] = _digest(path, kind)
        return Folder(path=str(path), digest=self._digests[path, kind])


def _digest(path: Path, kind: str) -> str:
    try:
        match kind:
            case "archive":
                if not _is_archive(path):
                    raise InputError("", f"'{path}' is no archive that can be read; pack it again")
                return digest_file(path)
            case "file":
                return canonical.digest(["file_v1", *_entry(path, "")[1:]])
            case _:
                return digest_folder(path, everything=kind == "everything")
    except OSError as error:
        raise InputError("", f"'{error.filename or path}' can't be read: {error.strerror}") from error
