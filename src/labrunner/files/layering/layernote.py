"""What is said of a layer by whoever does not open it: its name, and what was taken."""

from typing import Final

import msgspec

LAYER: Final = "layer.tar.zst"
"""Its name in an attempt's folder."""
LAYER_PART: Final = f"{LAYER}.part"
"""What it is called while it is written; of no use to anybody when its writer was killed."""

PATCH: Final = "patch"
"""The word in `collect` that stands for a patch of the git work tree in which agents work."""
PATCH_FILE: Final = "patch.diff"
"""The name of the same as a patch, where the folder is a git work tree and somebody asked for it."""


class LayerNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was taken, as it is noted at the barrier."""

    digest: str = ""
    size: int = 0
    """Of the file."""
    entries: int = 0
    bytes: int = 0
    """Of contents, before they were compressed."""
    removed: int = 0
    left_out: dict[str, int] = {}
    """What a layer can't hold, counted by kind."""
    problem: str | None = None
    """Why there is none."""

    @property
    def is_there(self) -> bool:
        """Whether the work can be put into another container."""
        return self.problem is None

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was changed, neither by the agent nor by its setup."""
        return self.is_there and not (self.entries or self.removed or self.left_out)

    def facts(self) -> dict[str, int | str | bool]:
        """For people."""
        if self.problem is not None:
            return {"layer": self.problem}
        told: dict[str, int | str | bool] = {"layer_entries": self.entries, "layer_removed": self.removed}
        left = ", ".join(f"{kind} {count}" for kind, count in sorted(self.left_out.items()))
        return told | ({"layer_left_out": left} if left else {})
