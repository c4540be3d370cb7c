"""A container's configuration: what it sees, what it may do, how much it may use. Pure.

Secure by default: no network, no new privileges, six capabilities, nothing of the host but the attempt's
own folders. `/agentlab` is the attempt's root, read-only, with its writable folders mounted over it: names
that are mount points can't be replaced by what runs inside.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from labrunner.experiment.resolved import SandboxPlan
from labrunner.sandbox.docker.engine.replies import EngineFacts, ImageFacts
from labrunner.sandbox.docker.wrapper.syscalls import choose_filter
from labrunner.sandbox.door import AttemptFolders, Check, SandboxSpec
from labrunner.sandbox.paths import AGENTLAB
from labrunner.sandbox.processes.enforcement import FSIZE_SLACK_MIB, MIB

CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
WRAPPER: Final = f"{AGENTLAB}/in/.wrapper.sh"
OWN_PROCESSES: Final = 3
"""The wrapper, and a watchdog or timer with its `sleep`."""
LARGEST_LOG: Final = "256k"
NOWHERE: Final = "none"
"""The network of containers that are on none."""

Limits = Mapping[str, float | int | str | bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """What one container is made of."""

    image: ImageFacts
    engine: EngineFacts
    expiry_s: int
    labels: Mapping[str, str]
    network: str
    """The one that some phase needs: the container is made on it, and taken off it for the others."""
    has_names: bool = True
    """Its network has a name server."""


def configure(spec: SandboxSpec, guest: Guest) -> dict[str, Any]:
    """Make the engine's configuration of an attempt's container."""
    plan = spec.plan
    return {
        "Image": guest.image.id,
        "Hostname": "agentlab",
        "User": "0:0",
        "WorkingDir": "/",
        "Entrypoint": ["/bin/sh"],
        "Cmd": [WRAPPER, str(guest.expiry_s)],
        "Labels": dict(guest.labels),
        "OpenStdin": True,
        "StdinOnce": False,
        "Tty": False,
        "NetworkDisabled": guest.network == NOWHERE,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",  # whoever stops it need not wait: it would not listen to anything else
        "HostConfig": {
            "Mounts": list(mounts(spec.folders, spec.agent_dir, spec.agent_also_at)),
            "NetworkMode": guest.network,
            # Engines before 26 pass names on from internal networks, to the host's own name server. Nobody
            # listens on the container's loopback.
            "Dns": [] if guest.has_names else ["127.0.0.1"],
            "CapDrop": ["ALL"],
            "CapAdd": list(CAPABILITIES),
            "SecurityOpt": ["no-new-privileges", *_filter(guest.engine)],
            "ReadonlyRootfs": plan.read_only,
            "Tmpfs": dict(plan.tmpfs),
            "LogConfig": {"Type": "json-file", "Config": {"max-size": LARGEST_LOG, "max-file": "1"}},
            "RestartPolicy": {"Name": "no"},
            "Init": False,
            **_limits(plan, enforced(plan, guest.engine)),
        },
    }


def _filter(engine: EngineFacts) -> Iterator[str]:
    if (chosen := choose_filter(engine)) is not None:
        yield f"seccomp={chosen}"


def enforced(plan: SandboxPlan, engine: EngineFacts) -> dict[str, float | int | str | bool | None]:
    """Limits as this engine enforces them; None where it can't."""
    return {
        "cpus": min(plan.cpus, float(engine.cpus)) if "cpus" in engine.limits else None,
        "memory_mb": plan.memory_mb if "memory_mb" in engine.limits else None,
        "pids": plan.pids if "pids" in engine.limits else None,
        "disk_mb": plan.disk_mb,
    }


def check_enforced(plan: SandboxPlan, engine: EngineFacts) -> Check:
    """Tell whether every limit that was asked for is enforced in full."""
    limits = enforced(plan, engine)
    lacking = [name for name in plan.asked if name in limits and limits[name] != getattr(plan, name)]
    if not lacking:
        told = ", ".join(
            f"{name} {value:g}" for name, value in limits.items() if isinstance(value, int | float)
        )
        return Check(name="limits", passed=True, message=f"enforced: {told}")
    asked = ", ".join(f"{name}: {getattr(plan, name)}" for name in lacking)
    found = ", ".join(f"{name} {limits[name]}" for name in lacking)
    return Check(
        name="limits",
        passed=False,
        severity="warning" if plan.limits == "best_effort" else "error",
        message=f"the experiment asks for {asked}; this engine can give {found}: ask for less, "
        "or accept it with sandbox.limits: best_effort",
    )


def mounts(
    folders: AttemptFolders, agent_dir: Path | None, agent_also_at: str | None = None
) -> Iterator[dict[str, Any]]:
    """What a container sees of the host."""
    yield _bind(folders.root, AGENTLAB, read_only=True)
    writable = (folders.workspace, folders.out, folders.state, folders.scratch, folders.ctl, folders.logs)
    for folder in writable:
        yield _bind(folder, f"{AGENTLAB}/{folder.name}", read_only=False)
    if agent_dir is not None:
        yield _bind(agent_dir, f"{AGENTLAB}/agent", read_only=True)
        if agent_also_at is not None:
            yield _bind(agent_dir, agent_also_at, read_only=True)


def _bind(source: Path, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}


def _limits(plan: SandboxPlan, limits: Limits) -> dict[str, Any]:
    largest_file = (plan.disk_mb + FSIZE_SLACK_MIB) * MIB
    config: dict[str, Any] = {
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "fsize", "Soft": largest_file, "Hard": largest_file},
        ],
    }
    cpus, memory, pids = limits["cpus"], limits["memory_mb"], limits["pids"]
    if isinstance(cpus, float | int):
        config["NanoCpus"] = round(cpus * 1e9)
    if isinstance(memory, int):
        config["Memory"] = config["MemorySwap"] = memory * MIB
    if isinstance(pids, int):
        config["PidsLimit"] = pids + OWN_PROCESSES
    return config
