"""Where this user's caches lie: what is there can be made again, at a price."""

import os
from pathlib import Path


def user_cache(name: str) -> Path:
    """The folder of one of lab's caches; RuntimeError for a user without a home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return cache / "labrunner" / name
