"""What the Docker engine answers, decoded once; nothing behind this reads its JSON."""

import base64
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

Status = Literal["created", "running", "ended"]
ChangeKind = Literal["changed", "added", "removed"]
_GO_LINK: Final = 1 << 27
"""How an engine's modes say that something is a link."""
FRAME_HEAD: Final = struct.Struct(">BxxxL")
"""What goes before each piece of a container's output: which stream it is of, and its length."""
_DEAD: Final = ("Z", "X")
_HAS_THREADS: Final = "l"
"""Among the letters that `ps` writes behind a state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine is and can do."""

    version: str
    cpus: int
    memory_bytes: int
    images: int
    containers: int
    root_dir: str
    limits: frozenset[str]
    """Which limits of a plan it can enforce."""
    is_rootless: bool
    id: str = ""
    """Its own name for itself."""
    filter: str = ""
    """The name of its filter of system calls; empty when there is none."""
    remaps_users: bool = False
    """Users inside have other numbers on its host."""

    @property
    def release(self) -> tuple[int, ...]:
        """Its version as numbers, as far as it has them."""
        return tuple(map(int, re.findall(r"\d+", self.version.partition("-")[0].partition("+")[0])))

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "EngineFacts":
        """Decode `/info`."""
        can = {"cpus": "CpuCfsQuota", "memory_mb": "MemoryLimit", "pids": "PidsLimit"}
        return cls(
            version=str(answer.get("ServerVersion", "")),
            cpus=int(answer.get("NCPU") or 1),
            memory_bytes=int(answer.get("MemTotal") or 0),
            images=int(answer.get("Images") or 0),
            containers=int(answer.get("Containers") or 0),
            root_dir=str(answer.get("DockerRootDir", "")),
            limits=frozenset(name for name, field in can.items() if answer.get(field)),
            is_rootless=any("rootless" in option for option in answer.get("SecurityOptions") or ()),
            id=str(answer.get("ID") or ""),
            filter=_filter(answer.get("SecurityOptions") or ()),
            remaps_users=any("userns" in option for option in answer.get("SecurityOptions") or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """How a container is, in the engine's own words."""

    status: Status
    exit_code: int
    oom_killed: bool
    pid: int
    error: str
    started_at: float
    labels: Mapping[str, str]
    image: str
    networks: frozenset[str]
    """Names of the networks that it is on."""
    upper_dir: str | None
    """Where the engine's host keeps what the container writes outside its mounts."""
    mounts: Mapping[str, str]
    """Paths inside, and where they lie on the engine's host."""
    volumes: tuple[str, ...]
    """Where the engine's host keeps what is written to volumes that the image asks for."""
    lower_dirs: tuple[str, ...] = ()
    """Where it keeps what lies below what the container writes, topmost first."""

    @property
    def is_alive(self) -> bool:
        """Whether its first process runs."""
        return self.status == "running"

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "ContainerState":
        """Decode `/containers/ID/json`."""
        state = answer["State"]
        driver = (answer.get("GraphDriver") or {}).get("Data") or {}
        return cls(
            status=_status(state),
            exit_code=int(state.get("ExitCode") or 0),
            oom_killed=bool(state.get("OOMKilled")),
            pid=int(state.get("Pid") or 0),
            error=str(state.get("Error") or ""),
            started_at=_seconds(state.get("StartedAt")),
            labels=dict(answer["Config"].get("Labels") or {}),
            image=str(answer.get("Image", "")),
            networks=frozenset((answer.get("NetworkSettings") or {}).get("Networks") or ()) - {"none"},
            upper_dir=driver.get("UpperDir"),
            lower_dirs=tuple(filter(None, (driver.get("LowerDir") or "").split(":"))),
            mounts={each["Destination"]: each.get("Source", "") for each in answer.get("Mounts") or ()},
            volumes=tuple(each["Source"] for each in answer.get("Mounts") or () if each["Type"] == "volume"),
        )


def _filter(options: Iterable[str]) -> str:
    """The filter's name in options such as `name=seccomp,profile=default`."""
    for option in options:
        words = dict(word.partition("=")[::2] for word in option.split(","))
        if words.get("name") == "seccomp":
            return words.get("profile") or "default"
    return ""


def _status(state: Mapping[str, Any]) -> Status:
    if state.get("Running") and not state.get("Dead"):
        return "running"
    return "created" if state.get("Status") == "created" else "ended"


def _seconds(stamp: str | None) -> float:
    """Read the engine's time stamps: nanoseconds, and the year 1 for never."""
    if not stamp or stamp.startswith("0001-"):
        return 0.0
    whole, _, rest = stamp.removesuffix("Z").partition(".")
    fraction = rest.split("+")[0].split("-")[0]
    zone = rest[len(fraction) :] or "+00:00"
    return datetime.fromisoformat(whole + zone).timestamp() + float(f"0.{fraction or 0}")


def join_frames(answer: bytes) -> bytes:
    """Decode `/containers/ID/logs`: frames of every stream."""
    parts, at = [], 0
    while at + FRAME_HEAD.size <= len(answer):
        _, size = FRAME_HEAD.unpack_from(answer, at)
        at += FRAME_HEAD.size
        parts.append(answer[at : at + size])
        at += size
    return b"".join(parts)


PATH_STAT: Final = "X-Docker-Container-Path-Stat"
_KINDS: Final[Mapping[int, ChangeKind]] = {0: "changed", 1: "added", 2: "removed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerChange:
    """A path that is not as the image has it; with everything below it, if it was removed."""

    path: str
    kind: ChangeKind

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "ContainerChange":
        """Decode an entry of `/containers/ID/changes`."""
        return cls(path=str(answer["Path"]), kind=_KINDS.get(answer.get("Kind", 0), "changed"))


def read_path_stat(header: str) -> str:
    """Decode the head that tells of a path: where it leads; empty when it is no link."""
    try:
        told = msgspec.json.decode(base64.b64decode(header, validate=True), type=dict[str, Any])
    except ValueError:
        return ""
    return str(told.get("linkTarget") or "") if int(told.get("mode") or 0) & _GO_LINK else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of a container, with the numbers of its host."""

    pid: int
    parent: int
    is_dead: bool
    """Ended, and not yet reaped: it can't do anything any more."""
    command: str

    @classmethod
    def of(cls, row: list[str]) -> "Process":
        """Decode a row of `pid,ppid,stat,args`."""
        pid, parent, state, command = row
        has_threads = _HAS_THREADS in state[1:]
        return cls.seen(
            pid=int(pid), parent=int(parent), state=state[:1], has_threads=has_threads, command=command
        )

    @classmethod
    def seen(cls, *, pid: int, parent: int, state: str, has_threads: bool, command: str) -> "Process":
        """Judge by the kernel's letter: the first thread may have ended while others go on."""
        return cls(pid=pid, parent=parent, is_dead=state in _DEAD and not has_threads, command=command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A container in a listing."""

    id: str
    name: str
    labels: Mapping[str, str]
    created_at: float = 0.0

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Listed":
        """Decode an entry of `/containers/json`."""
        names = answer.get("Names") or [""]
        return cls(
            id=str(answer["Id"]),
            name=str(names[0]).lstrip("/"),
            labels=dict(answer.get("Labels") or {}),
            created_at=float(answer.get("Created") or 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """A network."""

    id: str
    name: str
    labels: Mapping[str, str]
    address: str
    """The one that the engine's host has in it; empty when it has none."""
    created_at: float = 0.0

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "NetworkFacts":
        """Decode `/networks/NAME`, or an entry of `/networks`."""
        ranges = (answer.get("IPAM") or {}).get("Config") or ()
        given = next((each["Gateway"] for each in ranges if each.get("Gateway")), "")
        return cls(
            id=str(answer["Id"]),
            name=str(answer["Name"]),
            labels=dict(answer.get("Labels") or {}),
            address=str(given).partition("/")[0],
            created_at=_seconds(answer.get("Created")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PullNews:
    """What the engine tells while it pulls an image."""

    status: str
    layer: str
    """Which part of the image it is about; empty for the whole."""
    current: int
    total: int
    """How many bytes of the layer have come, and how many there are; 0 when it is about something else."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "PullNews":
        """Decode a line of `/images/create`."""
        status = str(answer.get("status") or "")
        detail = (answer.get("progressDetail") or {}) if status == "Downloading" else {}
        return cls(
            status=status,
            layer=str(answer.get("id") or ""),
            current=int(detail.get("current") or 0),
            total=int(detail.get("total") or 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """An image, by the digest of its content."""

    id: str
    repo_digest: str | None
    user: str
    env: Mapping[str, str]
    volumes: tuple[str, ...] = ()
    """Where its containers get volumes of the engine's, unless something else is mounted there."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "ImageFacts":
        """Decode `/images/NAME/json`."""
        config = answer.get("Config") or {}
        pairs = (pair.partition("=") for pair in config.get("Env") or ())
        return cls(
            id=str(answer["Id"]),
            repo_digest=next(iter(answer.get("RepoDigests") or ()), None),
            user=str(config.get("User") or ""),
            env={name: value for name, _, value in pairs},
            volumes=tuple(config.get("Volumes") or ()),
        )
