"""What the phases of a Harbor task may reach: its words become those of an experiment, or are refused."""

from typing import Any, Final

from labrunner.experiment.allowlist import parse_line
from labrunner.experiment.authoring.problems import found
from labrunner.interop.importers.foreign_values import ForeignTable

_WORDS: Final = {"public": "full", "no-network": "none"}


def find_baseline(environment: ForeignTable) -> Any:  # noqa: ANN401 - a network as an experiment writes it
    """What holds where a phase says nothing of its own: everything, by Harbor's default."""
    own = find_override(environment)
    if own is not None:
        return own
    allowed = environment.values.get("allow_internet")
    if allowed is not None and not isinstance(allowed, bool):
        environment.refuse("allow_internet", f"must be true or false, found {found(allowed)}")
    return "none" if allowed is False else "full"


def find_override(phase: ForeignTable) -> Any:  # noqa: ANN401 - a network as an experiment writes it
    """What a phase says itself; None where it says nothing."""
    mode = phase.text("network_mode")
    hosts = phase.texts("allowed_hosts")
    if mode != "allowlist":
        if phase.has("allowed_hosts"):
            phase.refuse("allowed_hosts", "goes with network_mode = 'allowlist' only")
        if mode is not None and mode not in _WORDS:
            phase.refuse("network_mode", f"must be public, no-network or allowlist, found {mode!r}")
        return None if mode is None else _WORDS.get(mode, "none")
    lines = [line for host in hosts if (line := _line(phase, host)) is not None]
    return {"allow": list(dict.fromkeys(lines))} if lines else "none"


def _line(phase: ForeignTable, host: str) -> str | None:
    """A host as the gateway's list writes it."""
    plain = host.strip().lower().rstrip(".")
    line = f"[{plain}]" if ":" in plain and not plain.startswith("[") else plain
    try:
        parse_line(line)
    except ValueError as error:
        phase.refuse("allowed_hosts", str(error))
        return None
    return line
