"""What the runner itself saw at an attempt's barrier, kept beside its folders for whoever adopts it.

Written behind the barrier, synced, into a folder that nothing inside the container can write.
"""

from typing import Final

import msgspec

from labrunner.errors import SandboxFailed
from labrunner.files.durable import put_whole
from labrunner.sandbox.door import AgentRun, AttemptFolders

FILE: Final = "barrier.json"


class BarrierRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How setup and agent ended, and how often the container has been started since."""

    run: AgentRun
    restarts: int = 0


def read_record(folders: AttemptFolders) -> BarrierRecord | None:
    """Read the record; None when the barrier was not reached, or its writing was cut off."""
    try:
        return msgspec.json.decode((folders.root / FILE).read_bytes(), type=BarrierRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    except OSError as error:
        raise SandboxFailed("record", f"reading {folders.root / FILE}: {error}") from error


def write_record(folders: AttemptFolders, record: BarrierRecord) -> None:
    """Write the record so that it outlives a power cut."""
    with SandboxFailed.during("record", f"writing {folders.root / FILE}"):
        put_whole(folders.root / FILE, msgspec.json.encode(record))
