"""What is said to a container's wrapper: its plan, the grader's command, the doorbell. Pure.

All of it is sh, made of quoted values only. The plan and the doorbell go through standard input and may
hold secrets; the grader's command goes through a file and holds none.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.sandbox.door import SEARCH_PATH, Phase
from labrunner.sandbox.paths import AGENTLAB

MAX_PLAN_BYTES: Final = 64 * 1024
WRITABLE: Final = tuple(f"{AGENTLAB}/{name}" for name in ("workspace", "out", "state", "scratch"))
GUARDED: Final = tuple(f"{AGENTLAB}/{name}" for name in ("ctl", "logs"))
"""Folders that the wrapper writes, and no other user may."""
COMMAND_FILE: Final = ".command"
NONCE: Final = "0" * 32
"""As long as any."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READ_ONLY: Final = frozenset({"UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS"})
_SHELLS_OWN: Final = ("HOSTNAME", "OLDPWD", "SHLVL")
_NOT_FOR_GRADERS: Final = ("PYTHON", "LD_", "PYTEST_")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBasics:
    """What the phases of one attempt have in common."""

    image_env: Mapping[str, str]
    workdir: str
    owner: str | None
    """Whose the files are to be when nobody inside needs them any more; None when nothing need be done."""
    users: tuple[str, ...] = ()
    """Who must be known before the agent begins, the agent's own user first; root need not be."""
    is_shared: bool = True
    """Agent and wrapper are one user: the one can do to the other what it likes."""
    restart: bool = True
    """The wrapper ends at the barrier, and is started again for the grader."""
    most_left: int = 0
    """How many bytes may be left in memory when all processes are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A phase with what only its container knows: who runs it, and in which private folder."""

    phase: Phase
    user: str
    """Empty for the wrapper's own."""
    scratch: str
    input: str = "/dev/null"
    """The file that it reads as standard input."""


def plan_text(
    basics: PhaseBasics, nonce: str, setup: Start | None, agent: Start | None, *, gate: bool
) -> str:
    """Say what setup and agent are. Neither: the container is started again for a grader alone."""
    lines = [nonce, _hand_back(basics)]
    if setup is not None:
        lines += [f"setup_s={_seconds(setup.phase)}", _function(basics, setup)]
    if agent is not None:
        lines += [
            f"agent_s={_seconds(agent.phase)}",
            f"agent_input={quote(agent.input)}",
            f"most_left={basics.most_left}",
            _meet(basics, agent.user),
            _own(basics, agent.user),
            _function(basics, agent),
        ]
        lines += ["restart=1"] if basics.restart else []
    lines += ["gate=1"] if gate else []
    return _checked("\n".join([*lines, f"end {nonce}", ""]))


def find_excess(image_env: Mapping[str, str], setup: Phase | None, agent: Phase, grader: Phase) -> str | None:
    """Why these can't be said to a wrapper; None when they can."""
    basics = PhaseBasics(image_env=image_env, workdir=f"{AGENTLAB}/workspace", owner="0:0")

    def start(phase: Phase) -> Start:
        return Start(phase=phase, user=phase.user or "", scratch="")

    try:
        plan_text(basics, NONCE, None if setup is None else start(setup), start(agent), gate=True)
        ring_text(basics, NONCE, start(grader))
    except SandboxFailed as failure:
        return str(failure)
    return None


def command_text(basics: PhaseBasics, bell: str, grader: Start, *, number: int) -> str:
    """Say what the grader's command is; its environment comes with the doorbell."""
    lines = [
        f"# {bell}",
        f"number={number}",
        f"more={'1' if grader.phase.may_repeat else ''}",
        f"grader_s={_seconds(grader.phase)}",
        _own(basics, grader.user),
        "grader() {",
        f"pick {quote(grader.user)}",
        _enter(basics),
        'eval "$env"',
        " ".join(["start", *map(quote, grader.phase.argv)]),
        "}",
        "",
    ]
    return "\n".join(lines)


def ring_text(basics: PhaseBasics, bell: str, grader: Start) -> str:
    """Ring: the grader's environment between two lines that nobody else knows.

    Begins with a line's end: an agent may have left half a line.
    """
    return _checked("\n".join(["", f"ring {bell}", *_environment(basics, grader), f"end {bell}", ""]))


def go_text(nonce: str) -> str:
    """Let the agent start, after its network was switched."""
    return f"\ngo {nonce}\n"


def quote(text: str) -> str:
    """Quote for sh."""
    return "'" + text.replace("'", "'\\''") + "'"


def phase_env(basics: PhaseBasics, start: Start) -> dict[str, str]:
    """A phase's complete environment: the image's own below, what the phase was given above."""
    phase = start.phase
    is_grader = phase.name == "grader"
    image = {
        name: value
        for name, value in basics.image_env.items()
        if not (is_grader and name.startswith(_NOT_FOR_GRADERS))
    }
    env = {**image, **phase.env, "HOME": f"{start.scratch}/home", "TMPDIR": f"{start.scratch}/tmp"}
    if "PATH" in image:
        env["PATH"] = env["PATH"].replace(SEARCH_PATH, image["PATH"])
    return env


def _function(basics: PhaseBasics, start: Start) -> str:
    lines = [
        f"{start.phase.name}() {{",
        f"pick {quote(start.user)}",
        _enter(basics),
        *_environment(basics, start),
        " ".join(["start", *map(quote, start.phase.argv)]),
        "}",
    ]
    return "\n".join(lines)


def _enter(basics: PhaseBasics) -> str:
    problem = quote(f"there is no folder {basics.workdir} in this image")
    return f"cd {quote(basics.workdir)} 2>/dev/null || {{ echo {problem} >&2; exit 126; }}"


def _environment(basics: PhaseBasics, start: Start) -> list[str]:
    env = phase_env(basics, start)
    for name in env:
        if _NAME.fullmatch(name) is None or name in _READ_ONLY:
            raise SandboxFailed("plan", f"a container's shell can't set the variable {name!r}")
    gone = [name for name in (*basics.image_env, *_SHELLS_OWN) if name not in env and _NAME.fullmatch(name)]
    return [
        f"unset {' '.join(gone)}",
        *(f"{name}={quote(value)}" for name, value in env.items()),
        f"export {' '.join(env)}",
    ]


def _meet(basics: PhaseBasics, agent_user: str) -> str:
    """Find who is asked for; an agent that must be another user than root has to be one."""
    known = "".join(f"find_user {quote(user)}; " for user in basics.users)
    if basics.is_shared:
        return f"meet() {{ {known}:; }}"
    problem = quote(f"user {agent_user} has root's number in this container")
    return f'meet() {{ {known}find_user {quote(agent_user)}; [ "$uid" -ne 0 ] || lack {problem}; }}'


def _own(basics: PhaseBasics, user: str) -> str:
    """Let the user who runs the next phase write where it may, and nobody else where it may not."""
    if not user and basics.owner is None:
        return "own() { :; }"
    guard = f"chown 0:0 {' '.join(GUARDED)}; " if user else ""
    return f"own() {{ {guard}give {quote(user or '0:0')} {' '.join(WRITABLE)}; }}"


def _hand_back(basics: PhaseBasics) -> str:
    if basics.owner is None:
        return "hand_back() { :; }"
    return f"hand_back() {{ give {quote(basics.owner)} {' '.join((*WRITABLE, *GUARDED))}; }}"


def _seconds(phase: Phase) -> int:
    """Whole seconds: a small `sleep` knows no others."""
    return max(1, math.ceil(phase.timeout_s))


def _checked(text: str) -> str:
    size = len(text.encode(errors="surrogateescape"))
    if size > MAX_PLAN_BYTES:
        problem = f"commands and environment come to {size} bytes, more than {MAX_PLAN_BYTES}"
        raise SandboxFailed("plan", f"{problem}; put large things into files")
    if "\0" in text:
        raise SandboxFailed("plan", "a command or a variable holds a NUL character")
    return text
