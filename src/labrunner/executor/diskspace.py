"""Whether the disk that attempts write to has as much room as the policy asks for."""

import shutil
from pathlib import Path

from labrunner.sandbox.door import Check
from labrunner.sandbox.processes.room import look_at


def check_disk(place: Path, wanted_gb: float, choose: str) -> Check:
    """Look at the disk of a place; `choose` says how to have another one."""
    free_gb, seen = shutil.disk_usage(place).free / 1e9, look_at(place)
    told = f"{free_gb:.1f} GB free"
    if free_gb < wanted_gb:
        told += f", min_free_disk_gb asks for {wanted_gb:g}: make room, or lower it"
    elif seen:
        told = f"the disk is as good as full ({seen}): make room, or {choose}"
    return Check(name="disk", passed=free_gb >= wanted_gb and not seen, message=told)
