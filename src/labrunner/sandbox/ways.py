"""How a sandbox comes to the doors of the gateway, in words: the same wherever it is told."""

from collections.abc import Mapping
from typing import Final

from labrunner.sandbox.door import Check

_WAYS: Final[Mapping[str, str]] = {
    "planted": "agents find their models and hosts on their sandbox's own loopback, where nothing else is",
    "bridge": "this user may not join a container's network, so agents find their models and hosts at an "
    "address of this host, over an internal network of the run's own: what else listens on addresses of this "
    "host other than its loopback can be reached, too. As root, or in bubblewrap, they reach nothing else",
    "loopback": "agents find their models and hosts on this host's loopback, which they share",
}


def tell_way(way: str) -> Check:
    """Say which way it is, and what that means; one that a stricter one could replace is worth a warning."""
    return Check(name="reach", passed=way != "bridge", severity="warning", message=f"{way}: {_WAYS[way]}")
