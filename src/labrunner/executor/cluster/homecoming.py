"""An attempt's files on their way home: into the run's directory, as they left the node, and durable.

Rules: pieces are taken as they come and checked by their digests; each file that the completion names is
read again from this disk and compared with what is said of it. What it names is on stable storage, and so is
the way to it, before anybody hears how the attempt ended. What lay in the attempt's place gives way, but
never a moment before what comes is whole, where somebody may still need it.
"""

import asyncio
import errno
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

from labrunner.errors import DamagedRun, SandboxFailed
from labrunner.executor.cluster.parcels import BadParcel, Unpacking, digest
from labrunner.files.descriptors import sync_path
from labrunner.files.durable import exchange, storing
from labrunner.files.strangers.hostile import open_below
from labrunner.files.strangers.masking import Masker
from labrunner.files.strangers.removal import remove_tree
from labrunner.files.strangers.sealing import settle_tree
from labrunner.files.uninterrupted import see_out
from labrunner.gateway.process.refilling import begin_away, end_away
from labrunner.records.completion import Completion, FileRef
from labrunner.trial.collecting.cut_off import redact_cut_off
from labrunner.trial.preparation import set_aside

Before = Literal["aside", "replaced"]
"""What becomes of a folder that lies there: a cut-off try is evidence; what was sent out from here, or came
home before, is needed until its successor is whole."""
_CHUNK: Final = 1 << 20
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EINVAL})
"""No such file, or no plain one."""


def find_way_home(root: Path) -> Path:
    """Where what replaces an attempt's folder lies until it is whole; left there by who was killed."""
    return root.with_name(f".{root.name}.home")


@asynccontextmanager
async def coming_home(
    root: Path, before: Before, masker: Masker, lent: Sequence[str] = ()
) -> AsyncIterator["Homecoming"]:
    """While inside, an attempt's files may come; what came in vain is not left lying about."""
    home = Homecoming(root, before, masker, lent)
    try:
        yield home
    except BaseException:
        await see_out(asyncio.to_thread(home.discard), lambda: None)
        raise
    finally:
        home.close()


class Homecoming:
    """The folder of one attempt."""

    def __init__(self, root: Path, before: Before, masker: Masker, lent: Sequence[str] = ()) -> None:
        """Nothing is touched before the first piece; `lent` is what its calls on a node were paid of."""
        self._root, self._masker, self._lent = root, masker, lent
        self._place = find_way_home(root) if before == "replaced" else root
        self._unpacking: Unpacking | None = None

    def take(self, piece: bytes, told: bytes) -> None:
        """Take the next piece. Raises SandboxFailed for one that is not what was sent."""
        if digest(piece) != told:
            raise SandboxFailed("files_damaged", "a piece of its files is not what the node sent")
        with storing("bringing home", self._root):
            try:
                self._begin().take(piece)
            except BadParcel as error:
                raise SandboxFailed("files_damaged", f"its files can't be read: {error}") from error

    def finish(self, completion: Completion) -> None:
        """See that all is there, and make it durable. Raises SandboxFailed, StoreError."""
        refs = (*completion.files, *completion.timing.logs)
        with storing("bringing home", self._root):
            try:
                self._begin().finish()
            except BadParcel as error:
                raise SandboxFailed("files_damaged", f"its files are not whole: {error}") from error
            self.close()
            for ref in refs:
                self._compare(ref)
            for name in ("in", *completion.timing.folders):
                if (self._place / name).is_dir() and not (self._place / name).is_symlink():
                    settle_tree(self._place / name)
            for folder in self._folders_of(refs):
                sync_path(folder)
            if self._lent:
                self._note_paid()
            if self._place != self._root:
                self._replace()
            sync_path(self._root.parent)
            sync_path(self._root.parent.parent)

    def close(self) -> None:
        """Let go of what is open."""
        if self._unpacking is not None:
            self._unpacking.close()
            self._unpacking = None

    def discard(self) -> None:
        """Remove what came beside the attempt's own place, which nobody would look for."""
        self.close()
        if self._place != self._root:
            remove_tree(self._place)

    def _begin(self) -> Unpacking:
        if self._unpacking is None:
            self._make_room()
            self._unpacking = Unpacking(self._place)
        return self._unpacking

    def _make_room(self) -> None:
        if self._place != self._root:
            remove_tree(self._place)  # left by who was killed
        elif (aside := set_aside(self._root)) is not None:
            redact_cut_off(aside, self._masker)
        self._place.mkdir(parents=True)
        if self._lent:
            begin_away(self._root, self._lent, self._place)

    def _note_paid(self) -> None:
        try:
            end_away(self._place)
        except DamagedRun as error:
            raise SandboxFailed("files_damaged", f"its calls can't be read: {error}") from error

    def _replace(self) -> None:
        """Put what came in the attempt's place: one of both lies there whole at any time."""
        if not self._root.exists():
            self._place.rename(self._root)
        elif exchange(self._place, self._root):
            remove_tree(self._place)
        else:
            old = set_aside(self._root)
            assert old is not None
            self._place.rename(self._root)
            remove_tree(old)

    def _compare(self, ref: FileRef) -> None:
        state, size = hashlib.sha256(), 0
        try:
            with open_below(self._place, ref.path) as file:
                while chunk := file.read(_CHUNK):
                    state.update(chunk)
                    size += len(chunk)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            raise SandboxFailed("files_damaged", f"{ref.path} did not come from the node") from error
        if (size, f"sha256:{state.hexdigest()}") != (ref.size, ref.digest):
            raise SandboxFailed("files_damaged", f"{ref.path} is not what the node says of it")
        sync_path(self._place / ref.path)

    def _folders_of(self, refs: tuple[FileRef, ...]) -> list[Path]:
        """Every folder on the way to a file, the attempt's own last."""
        ways = {folder for ref in refs for folder in (self._place / ref.path).parents}
        below = [folder for folder in ways if folder.is_relative_to(self._place) and folder != self._place]
        return [*sorted(below), self._place]
