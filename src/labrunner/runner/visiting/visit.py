"""A throw-away sandbox for somebody who looks around: as an agent, or its grader, would find it.

Rules: nothing of a run is changed: what was kept is copied, never lent. Everything lies below one folder,
which goes when the visit ends; of one that was killed, the next visit and `lab clean` find folder and
sandbox. No gateway serves a visit: models and allowed hosts are not reached from it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from labrunner.errors import InputError, SetupFailed
from labrunner.experiment.resolved import Experiment, Network
from labrunner.experiment.schedule import Slot
from labrunner.files.layering.layernote import LAYER, PATCH_FILE
from labrunner.files.scraps import SHELL, find_scraps, scrap_folder
from labrunner.files.strangers.copying import copy_tree
from labrunner.files.strangers.removal import remove, remove_if_possible
from labrunner.files.uninterrupted import wait_out
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.runner.reuse.keptwork import COPIED, copy_recorded
from labrunner.runner.upkeep.preflight import way_to
from labrunner.sandbox import registry
from labrunner.sandbox.door import Demands, GuestPaths, Phase, Sandbox, SandboxSpec
from labrunner.sandbox.execution import LONGEST_S, ExecEnd
from labrunner.sandbox.terminals.person import TerminalSandbox
from labrunner.store.reading.logends import read_end
from labrunner.trial import phases, preparation
from labrunner.trial.assignment import Assignment, AttemptScene, TrialContext, set_scene
from labrunner.trial.phases import AgentEnding

Role = Literal["agent", "grader"]
SAID: Final = 1000
ENDED: Final = AgentEnding(status="0", outcome="exited")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Which trial's sandbox is visited, and in whose place."""

    experiment: Experiment
    slot: Slot
    role: Role
    run_id: str = "shell"
    attempt: int = 1
    work: Path | None = None
    """The folder of an attempt whose work is looked at; None: the task as it begins."""
    ending: AgentEnding = ENDED
    """How its agent ended."""

    @property
    def trial_id(self) -> str:
        """The trial's id."""
        variant, task = (
            self.experiment.variants[self.slot.variant_idx],
            self.experiment.tasks[self.slot.task_idx],
        )
        return make_trial_id(variant.id, task.id, self.slot.repl_idx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A sandbox that is ready to be looked around in."""

    sandbox: TerminalSandbox
    phase: Phase
    """What the agent, or the grader, would be started with."""
    guest: GuestPaths
    plan_kind: str
    unreached: tuple[str, ...]
    """Models and hosts that a trial would reach, and the visit does not."""


Stay = Callable[[Visit], Awaitable[ExecEnd]]
"""What is done in a sandbox."""


async def pay_visit(place: Whereabouts, secrets: Mapping[str, str], runs_dir: Path, stay: Stay) -> ExecEnd:
    """Make the sandbox, stay in it, and remove everything. Raises AttemptFailed, InputError."""
    nearest = next(folder for folder in way_to(runs_dir) if folder.is_dir())
    await asyncio.to_thread(_sweep, nearest)
    with scrap_folder(SHELL, nearest) as folder:
        trials = folder.resolve() / "trials"
        trials.mkdir()
        try:
            return await _visit(_set_scene(place, secrets, trials), place, stay)
        finally:
            await asyncio.to_thread(remove, trials)


def _sweep(place: Path) -> None:
    """Remove what visits that were killed have left here."""
    for folder in find_scraps(place):
        if folder.name.startswith(SHELL):
            remove_if_possible(folder)


def _set_scene(place: Whereabouts, secrets: Mapping[str, str], trials: Path) -> AttemptScene:
    experiment = place.experiment
    task, agent = experiment.tasks[place.slot.task_idx], experiment.variants[place.slot.variant_idx].agent
    names = (*agent.secrets, *task.grader.secrets)
    context = TrialContext(
        experiment=experiment,
        run_id=place.run_id,
        trials_dir=trials,
        host="",
        secrets={name: secrets.get(name, "") for name in names},
    )
    assignment = Assignment(
        token=make_token(), slot=place.slot, trial_id=place.trial_id, attempt=place.attempt
    )
    return set_scene(context, assignment)


async def _visit(scene: AttemptScene, place: Whereabouts, stay: Stay) -> ExecEnd:
    await asyncio.to_thread(_lay_out, scene, place)
    kind = scene.variant.sandbox.kind
    maker = registry.make(kind)
    try:
        guest = maker.guest_paths(scene.folders, _agent_dir(scene, place))
        phase, setup = _make_phases(scene, place, guest)
        async with maker.open(_make_spec(scene, place, phase)) as sandbox:
            policy = phases.policy_note(scene, dict(sandbox.limits))
            await asyncio.to_thread(preparation.write_policy, scene.folders, policy)
            opened = _check_kind(sandbox, kind)
            async with _held_open(opened, scene, setup, _shut(phase)):
                return await stay(
                    Visit(
                        sandbox=opened,
                        phase=phase,
                        guest=guest,
                        plan_kind=kind,
                        unreached=(*phase.network.models, *phase.network.hosts),
                    )
                )
    finally:
        await maker.close()


def _check_kind(sandbox: Sandbox, kind: str) -> TerminalSandbox:
    if not isinstance(sandbox, TerminalSandbox):
        raise InputError("sandbox", f"sandboxes of the kind {kind} have no terminal to look around with")
    return sandbox


def _lay_out(scene: AttemptScene, place: Whereabouts) -> None:
    """Put the attempt's files in place: as the task has them, or as its agent left them."""
    folders = scene.folders
    if place.work is None:
        preparation.lay_out(scene)
    else:
        with SetupFailed.during("workspace_unreadable", f"copying what was kept in {place.work}"):
            for kept in filter(Path.is_dir, (place.work / name for name in COPIED)):
                copy_tree(kept, folders.root / kept.name)
            for name in (LAYER, PATCH_FILE):
                copy_recorded(place.work / name, folders.root / name)
        preparation.lay_out_again(folders)
    if place.role == "grader":
        preparation.bring_grader(scene.task, folders)
        preparation.clear_verdicts(folders)


def _agent_dir(scene: AttemptScene, place: Whereabouts) -> Path | None:
    return scene.agent_dir if place.role == "agent" else None


def _make_phases(scene: AttemptScene, place: Whereabouts, guest: GuestPaths) -> tuple[Phase, Phase | None]:
    """The phase that is visited, and the setup that comes before it: what was kept has had its own."""
    setup = phases.setup_phase(scene, guest) if place.work is None else None
    if place.role == "agent":
        phase = phases.agent_phase(scene, guest)
    else:
        phase = phases.grader_phase(scene, guest, place.ending)
    return phase, None if setup is None else _shut(setup)


def _shut(phase: Phase) -> Phase:
    """A phase as a visit has it: without doors, and for as long as somebody stays."""
    timeout_s = phase.timeout_s if phase.name == "setup" else LONGEST_S
    return replace(phase, network=_without_doors(phase.network), stdin=None, timeout_s=timeout_s)


def _without_doors(network: Network) -> Network:
    return Network(mode="full" if network.mode == "full" else "none")


def _make_spec(scene: AttemptScene, place: Whereabouts, phase: Phase) -> SandboxSpec:
    shut = _shut(phase)
    setup = scene.task.setup if scene.task.setup is not None else scene.variant.setup
    demands = Demands(
        agent_user=phase.user,
        grader_user=phase.user,
        networks=(_without_doors(setup.network), shut.network, shut.network),
        system_changes=False,
        brings_work=(scene.folders.root / LAYER).is_file(),
    )
    spec = replace(phases.sandbox_spec(scene), mark=None, demands=demands)
    return spec if place.role == "agent" else replace(spec, agent_dir=None, agent_also_at=None)


@asynccontextmanager
async def _held_open(
    sandbox: TerminalSandbox, scene: AttemptScene, setup: Phase | None, phase: Phase
) -> AsyncIterator[None]:
    """Run the setup, and have the sandbox open for calls; nothing of them is left."""
    ended = await sandbox.begin(setup, phase)
    if ended is not None and ended.exit_status != 0:
        said = (read_end(scene.folders.logs / "setup.stderr", SAID) or b"").decode(errors="replace").strip()
        raise SetupFailed(
            "setup_failed", f"the setup of task {scene.task.id} ended with {ended.exit_status}: {said}"
        )
    try:
        yield
    finally:
        # Also for who was cancelled: until then files may be another user's, which could not be removed.
        closing = asyncio.ensure_future(sandbox.end_all())
        cancelled = await wait_out(closing)
        closing.result()
        if cancelled is not None:
            raise cancelled


def tell_missing(place: Whereabouts, secrets: Mapping[str, str]) -> Iterator[str]:
    """Names of secrets that would be there, and have no value here."""
    agent = place.experiment.variants[place.slot.variant_idx].agent
    grader = place.experiment.tasks[place.slot.task_idx].grader
    names = agent.secrets if place.role == "agent" else grader.secrets
    return (name for name in names if not secrets.get(name))
