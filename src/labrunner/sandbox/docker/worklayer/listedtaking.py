"""A layer of work, by the engine's word: its list says which paths were changed, an archive holds them.

For whoever may not look into the engine's own folders. The list goes by sizes and times: what was written
with both as they were before is not in it. Volumes of the image are in no list, and taken whole.
"""

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from labrunner.files.layering.layerfile import KINDS, LONGEST_PATH, LayerWriter, is_of_repository, rename
from labrunner.sandbox.docker.engine.replies import ContainerChange

NO_TEXT = "\ufffd"
"""What stands in an engine's list for bytes that are no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWork:
    """What an engine lists below a folder."""

    folder: str
    """Of the image, without links in its path."""
    changed: frozenset[str]
    """Paths below it, with all folders that they lie in; as the engine spells them."""
    removed: tuple[str, ...]
    """Paths below it that are gone; an empty one for the folder itself."""
    whole: tuple[str, ...] = ()
    """Paths below it that are taken with all that is in them."""
    unsayable: int = 0
    """How many removed paths can't be named: bytes of theirs are no text."""

    def is_wanted(self, path: str) -> bool:
        """Whether a path is taken."""
        return _as_listed(path) in self.changed or any(is_below(path, place) for place in self.whole)


def list_work(changes: Iterable[ContainerChange], folder: str, whole: Iterable[str] = ()) -> ListedWork:
    """What of an engine's list lies below a folder."""
    changed, removed, unsayable, is_gone = set[str](), set[str](), 0, False
    for change in changes:
        if change.kind == "removed" and is_below(folder, change.path):
            is_gone = True
        if not is_below(change.path, folder):
            continue
        path = change.path[len(folder) + 1 :]
        if change.kind != "removed":
            changed.update(_with_folders(path))
        elif NO_TEXT in path:
            unsayable += 1
        else:
            removed.add(path)
    inner = tuple(path[len(folder) + 1 :] for path in whole if is_below(path, folder))
    for path in inner:
        changed.update(_with_folders(path))
    return ListedWork(
        folder=folder,
        changed=frozenset(changed),
        removed=("",) if is_gone else tuple(sorted(removed)),
        whole=inner,
        unsayable=unsayable,
    )


@dataclass(slots=True, kw_only=True)
class ListedWriting:
    """Writes what is listed, from an archive of the folder, as it arrives."""

    work: ListedWork
    writer: LayerWriter
    hidden: tuple[str, ...] = ()
    """Paths below the folder that are no part of the container's own files."""
    _written: set[str] = field(default_factory=set)
    _folders: dict[str, tarfile.TarInfo] = field(default_factory=dict)
    _specials: dict[str, tarfile.TarInfo] = field(default_factory=dict)
    """What is neither file nor folder: its other names are written as what it is."""
    _met: set[str] = field(default_factory=set)
    """What of the list is in the archive."""
    lost: list[tuple[str, tarfile.TarInfo]] = field(default_factory=list)
    """Other names of files that can't be links to their first one yet (it is not in the list, or on the other
    side of the repository's border): to be asked for one by one."""

    def read(self, archive: tarfile.TarFile) -> None:
        """Write all that is wanted."""
        if self.work.unsayable:
            self.writer.left_out["removed names that are no text"] += self.work.unsayable
        while (member := next_member(archive)) is not None:
            path = "/".join(member.name.strip("/").split("/")[1:])
            if not path and not member.isdir():
                return self.writer.leave_out("folder")
            member = self._recognise(path, member)
            # A file of the image that has a new name comes with it: its own may be told as the second one.
            is_same = member.islnk() and self._can_link(path, member.linkname)
            if is_same or self.work.is_wanted(path):
                self._met.add(_as_listed(path))
                if not any(is_below(path, place) for place in self.hidden):
                    self._take(path, member, archive)
        # Sockets are in the list of an engine, and in none of its archives.
        if sockets := len(self.work.changed - self._met):
            self.writer.left_out["sockets"] += sockets
        return None

    def read_lost(self, path: str, archive: tarfile.TarFile) -> None:
        """Write one that was lost, or the first name of one, from an archive of it alone."""
        member = next_member(archive)
        if member is not None and member.isreg():
            self._take(path, member, archive)

    def lacks_first(self, path: str, first: str) -> bool:
        """Whether a lost one could be a link, were its first name here, too: the image has it like that."""
        return first not in self._written and is_of_repository(path) == is_of_repository(first)

    def link(self, path: str, member: tarfile.TarInfo) -> bool:
        """Write a lost one as a link to its first name, where that can be; whether it is written now."""
        if self._can_link(path, member.linkname):
            self._put_with_folders(path, member, None)
        return path in self._written

    def _recognise(self, path: str, member: tarfile.TarInfo) -> tarfile.TarInfo:
        """What a member is, also where the archive has only that it is another name of something."""
        if member.isdir():
            self._folders[path] = member
        elif member.islnk():
            member.linkname = "/".join(member.linkname.strip("/").split("/")[1:])
            first = self._specials.get(member.linkname)
            return member if first is None else rename(first, path)
        elif not member.isreg():
            self._specials[path] = member
        return member

    def _take(self, path: str, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        kind = tarfile.REGTYPE if member.isreg() else member.type
        if kind not in KINDS:
            return self.writer.leave_out("devices" if member.isdev() else "sockets")
        if len(path.encode(errors="surrogateescape")) > LONGEST_PATH:
            return self.writer.leave_out("too deep")
        if member.islnk() and not self._can_link(path, member.linkname):
            return self.lost.append((path, member))
        return self._put_with_folders(path, member, archive)

    def _put_with_folders(self, path: str, member: tarfile.TarInfo, archive: tarfile.TarFile | None) -> None:
        for folder in _above(path):
            if folder not in self._written:
                self._put(folder, self._folders[folder], archive)
        self._put(path, member, archive)

    def _can_link(self, path: str, first: str) -> bool:
        return first in self._written and is_of_repository(path) == is_of_repository(first)

    def _put(self, path: str, member: tarfile.TarInfo, archive: tarfile.TarFile | None) -> None:
        if path in self._written:
            return
        self._written.add(path)
        content = archive.extractfile(member) if archive is not None and member.isreg() else None
        member.name = path
        self.writer.add(member, content)


def _as_listed(path: str) -> str:
    """A path as an engine's list spells it."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


def read_names(archive: tarfile.TarFile) -> set[str]:
    """Names in an archive of a folder, below it."""
    names = set[str]()
    while (member := next_member(archive)) is not None:
        names.add("/".join(member.name.strip("/").split("/")[1:]))
    return names


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Paths without those that lie below another of them."""
    known = set(paths) - {""}
    return tuple(sorted(path for path in known if known.isdisjoint(_above(path))))


def is_below(path: str, place: str) -> bool:
    """Whether a path is a place, or lies below it."""
    return path == place or path.startswith(f"{place}/") or place == "/"


def _above(path: str) -> Iterator[str]:
    """The folders that a path lies in, the outermost first; an empty one for that of all."""
    if path:
        yield ""
        parts = path.split("/")
        yield from ("/".join(parts[:end]) for end in range(1, len(parts)))


def _with_folders(path: str) -> Iterator[str]:
    yield from _above(path)
    yield path


def next_member(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    """The next member of a streamed archive; those before it, perhaps very many, are forgotten."""
    archive.members.clear()  # type: ignore[attr-defined]  # it is there, and undocumented
    return archive.next()
