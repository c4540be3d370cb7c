"""The labels of a container: whose it is, and what its wrapper's words can be checked with.

Labels can be read through the engine only, never from inside: the nonce is safe in them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from labrunner.files.host import boot_id, is_process_gone, process_mark
from labrunner.sandbox.docker.engine.replies import Listed
from labrunner.sandbox.marks import Mark, RunMark

PREFIX: Final = "labrunner."
PLACE: Final = f"{PREFIX}place"
PROBE: Final = f"{PREFIX}probe"
KEPT: Final = "lab-kept-"
"""Names of containers that were kept for a look begin with this."""

Role = Literal["attempt", "grader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """What a container of ours says about itself."""

    mark: Mark | None
    nonce: str
    """What the nonces of its lives are made of."""
    role: Role
    expires_at: int
    expiry_s: int
    is_shared: bool = False
    """Agent and wrapper are one user: nothing that the wrapper says is believed once an agent has begun."""
    is_bridged: bool = False
    """Its doors are at an address of the network of its run; else they are planted, if it has any."""

    def labels(self) -> dict[str, str]:
        """As the engine keeps them."""
        labels = {
            "nonce": self.nonce,
            "role": self.role,
            "expires_at": str(self.expires_at),
            "expiry_s": str(self.expiry_s),
            "boot": boot_id(),
            "shared": "1" if self.is_shared else "",
            "bridged": "1" if self.is_bridged else "",
        }
        if self.mark is None:
            labels["probe"] = process_mark()
        else:
            labels |= {
                "place": self.mark.run.place,
                "run": self.mark.run.run_id,
                "trial": self.mark.trial_id,
                "attempt": str(self.mark.attempt),
                "token": self.mark.token,
            }
        return {f"{PREFIX}{name}": value for name, value in labels.items()}

    def name(self) -> str:
        """A container's name: readable, and never the same twice."""
        if self.mark is None:
            return f"lab-probe-{self.nonce[:12]}"
        trial = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.mark.trial_id)[:80]
        end = "" if self.role == "attempt" else f"-grader-{self.nonce[:6]}"
        return f"lab-{trial}-{self.mark.attempt}-{self.mark.token[:8]}{end}"


def has_rebooted(labels: Mapping[str, str]) -> bool:
    """Whether a container was made before this machine was started the last time."""
    boot, now = labels.get(f"{PREFIX}boot", ""), boot_id()
    return bool(boot and now) and boot != now


def is_orphan(labels: Mapping[str, str]) -> bool:
    """Whether something is a probe's whose process is gone: nobody will ever come back for it."""
    mark = labels.get(PROBE, "")
    return mark.count(":") == 3 and is_process_gone(mark)


def read_tag(listed: Listed, run: RunMark) -> Tag | None:
    """The tag of a container of this very run; None when it is not one."""
    labels = {name.removeprefix(PREFIX): value for name, value in listed.labels.items()}
    if labels.get("place") != run.place or labels.get("run") != run.run_id:
        return None
    try:
        return Tag(
            mark=Mark(
                run=run, trial_id=labels["trial"], attempt=int(labels["attempt"]), token=labels["token"]
            ),
            nonce=labels["nonce"],
            role="grader" if labels["role"] == "grader" else "attempt",
            expires_at=int(labels["expires_at"]),
            expiry_s=int(labels["expiry_s"]),
            is_shared=bool(labels["shared"]),
            is_bridged=bool(labels.get("bridged")),
        )
    except (KeyError, ValueError):
        return None
