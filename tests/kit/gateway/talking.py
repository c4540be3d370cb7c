"""Runs whose agents talked to a model: each talk goes through the real gateway, into a run on disk."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from labrunner.experiment.resolved import Experiment
from labrunner.files.strangers.masking import make_masker
from labrunner.gateway.recording.calljournal import read_calls
from labrunner.records.completion import FileRef
from labrunner.records.encoding.ids import Ids, make_trial_id
from labrunner.records.facts.call_usage import sum_calls
from labrunner.sandbox.door import AttemptFolders
from labrunner.store.layout import RunPaths
from labrunner.trial.collecting.collection import collect
from tests.kit.gateway.front import make_client, run_gateway
from tests.kit.gateway.provider import KEY, Behaviour, run_provider
from tests.kit.made_runs import Told, make_grid, write_run

FIRST = make_trial_id("a", "t0", 0)
LAST = make_trial_id("b", "t1", 0)


@dataclass(frozen=True, kw_only=True)
class Say:
    """One request of an agent."""

    path: str
    body: Mapping[str, Any]


def chat(*messages: Mapping[str, Any], **more: Any) -> Say:
    return Say(path="/openai/v1/chat/completions", body={"model": "m", "messages": list(messages), **more})


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def talk(
    folder: Path, said: Sequence[Say], *, plan: Iterable[Behaviour] = (), ids: Ids, attempt: int = 1
) -> None:
    """Let an agent say these things, one after the other; calls lie in the folder then."""
    async with (
        run_provider() as provider,
        run_gateway(folder, provider, ids=ids, attempt=attempt) as front,
        make_client(front) as client,
    ):
        provider.plan.extend(plan)
        for each in said:
            with suppress(httpx.TransportError):  # a call that broke off; the agent goes on
                await client.post(each.path, json=dict(each.body))


@dataclass(frozen=True, kw_only=True)
class Talked:
    """What one trial's agent said, and how the provider behaved meanwhile."""

    said: Sequence[Say] = ()
    plan: Sequence[Behaviour] = ()
    value: float = 1.0


def write_talked_run(
    runs_dir: Path,
    talks: Mapping[str, Talked],
    *,
    experiment: Experiment | None = None,
    run_id: str = "made",
) -> RunPaths:
    """A run in which these trials talked, by id: see `FIRST` and `LAST`."""
    experiment = experiment or make_grid(tasks=2)
    paths = RunPaths(runs_dir / run_id)
    aside = runs_dir / f".{run_id}"
    kept: dict[str, tuple[tuple[FileRef, ...], dict[str, float | int]]] = {}
    for task in experiment.tasks:
        for variant in experiment.variants:
            trial_id = make_trial_id(variant.id, task.id, 0)
            if trial_id in talks:
                ids = Ids(
                    run_id=run_id, trial_id=trial_id, variant_id=variant.id, task_id=task.id, repl_idx=0
                )
                kept[trial_id] = _record(aside / trial_id / "1", talks[trial_id], ids)
    unknown = talks.keys() - kept.keys()
    assert not unknown, unknown

    def script(slot: Any) -> Told:
        task, variant = experiment.tasks[slot.task_idx], experiment.variants[slot.variant_idx]
        trial_id = make_trial_id(variant.id, task.id, 0)
        logs, usage = kept.get(trial_id, ((), {}))
        value = talks[trial_id].value if trial_id in talks else 1.0
        return Told(logs=logs, usage=usage, value=value)

    write_run(runs_dir, experiment, script, run_id=run_id)
    paths.trial_folders.mkdir(exist_ok=True)
    for trial_id in kept:
        (aside / trial_id).rename(paths.trial(trial_id))
    return paths


def _record(root: Path, talked: Talked, ids: Ids) -> tuple[tuple[FileRef, ...], dict[str, float | int]]:
    folders = AttemptFolders(root=root)
    for folder in folders.all():
        folder.mkdir(parents=True)
    asyncio.run(talk(root, talked.said, plan=talked.plan, ids=ids))
    usage = sum_calls(read_calls(root))
    return collect(folders, make_masker({"KEY": KEY})).logs, usage
