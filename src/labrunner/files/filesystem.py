"""What a run asks of the file system that it lies on.

Network file systems' locks and shared memory can't be trusted: they are refused.
"""

import array
import fcntl
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from labrunner.errors import StoreError

_UNSAFE: Final = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb3",
        "smbfs",
        "virtiofs",
        "vboxsf",
    }
)
_LOCAL_FUSE: Final = frozenset({"fuse.ext4", "fuse.ntfs-3g", "fuseblk", "fuse.fuse-overlayfs"})
_MOUNTS: Final = Path("/proc/self/mountinfo")
_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_TOP_OF_TREES: Final = 0x00020000
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


def filesystem_problem(path: Path) -> str | None:
    """Why `path` can't hold runs, or None. A path that does not exist yet counts as its parent."""
    try:
        mounts = _MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    kind = find_kind(path.resolve(), mounts)
    if kind is None or not is_unsafe(kind):
        return None
    return (
        f"{path} lies on a network file system ({kind}), whose locks and shared memory can't be trusted; "
        "choose a folder on a local disk"
    )


def flock(fd: int, how: int) -> bool:
    """Take a kernel's lock on an open file; False when somebody else has it. Never waits."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        place = _place_of(fd)
        raise StoreError(
            f"locking {place}: its file system has no locks ({os.strerror(error.errno or 0).lower()}), "
            "and without them nothing keeps two owners off one run; choose a folder on another disk"
        ) from error
    return True


def _place_of(fd: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return "a file of the run"


def lock_problem(folder: Path) -> str | None:
    """Why the files of a folder can't be locked, or None."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None  # told by whoever has to write there
    try:
        flock(fd, fcntl.LOCK_SH)
    except StoreError as error:
        return str(error)
    finally:
        os.close(fd)
    return None


def is_unsafe(kind: str) -> bool:
    """Whether a file system of this type may lie about locks or shared memory."""
    return kind in _UNSAFE or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)


def find_kind(path: Path, mounts: str) -> str | None:
    """Type of the file system that `path` lies on, from the text of `mountinfo`."""
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4]))
        # Later lines lie on top of earlier ones at the same place.
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), right.split(" ")[0])
    return best[1] if best else None


def spread_below(folder: Path) -> None:
    """Ask for the trees below a folder to be kept apart on the disk, of a file system that can.

    ext4 puts everything below a folder into one group of inodes, and whoever makes a file there steps over
    each one that was removed from it in the last minutes. Attempts make and remove many.
    """
    if sys.platform != "linux":
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = array.array("l", [0])
        with suppress(OSError):
            fcntl.ioctl(fd, _GET_FLAGS, flags)
            flags[0] |= _TOP_OF_TREES
            fcntl.ioctl(fd, _SET_FLAGS, flags)
    finally:
        os.close(fd)
