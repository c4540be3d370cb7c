"""Writes a whole run in a scrambled order and says on standard output what was acknowledged.

Run as a process of its own, so that it can be killed: `python driver.py RUNS_DIR`. Started again on what
a killed one left, it goes on.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from labrunner.files import points
from labrunner.records.encoding import canonical
from labrunner.records.seals import seal_summary
from labrunner.records.summary import SummaryRecord, Totals
from labrunner.store.layout import RunPaths
from labrunner.store.writing.writer import RunWriter, open_writer
from tests.kit.store.sample import BENCHMARK, make_rows, make_run, make_status, trial_id_of

PLANNED = 12
ROUNDS = ((3, 1), (0,), (2, 7, 6), (4,), (11, 9), (5, 10), (8,))


async def write_all(runs_dir: Path) -> RunPaths:
    paths = RunPaths(runs_dir / "run-1")
    if not paths.root.exists():
        make_run(runs_dir, PLANNED)
    async with open_writer(paths) as writer:
        say("opened", *(idx for idx in range(PLANNED) if writer.is_finished(idx)))
        await writer.write_status(make_status(PLANNED))
        for number, slots in enumerate(ROUNDS):
            await _finish_together(writer, [idx for idx in slots if not writer.is_finished(idx)])
            await writer.write_summary(_summary(number, writer.chain))
            await writer.write_status(make_status(PLANNED, updated_at=f"2026-01-01T00:00:{number + 2:02}Z"))
        await writer.settle()
        final = make_status(PLANNED, "success", committed=writer.counts().committed, chain=writer.chain)
        await writer.write_status(final)
    return paths


async def _finish_together(writer: RunWriter, slots: list[int]) -> None:
    async with asyncio.TaskGroup() as group:
        for idx in slots:
            group.create_task(_finish(writer, idx))


async def _finish(writer: RunWriter, idx: int) -> None:
    token = f"token-{idx}"
    await writer.note_dispatch(token, idx, trial_id_of(idx), 1, durable=idx % 2 == 0)
    await writer.note_barrier(token, b"{}", durable=False)
    if not await writer.finish(make_rows(idx), token=token):
        raise AssertionError(f"slot {idx} was refused")
    say("finished", idx)


def say(*words: object) -> None:
    """Say a line in one write: a process that is killed has said it whole or not at all."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def _summary(number: int, chain: str) -> bytes:
    totals = Totals(trials=number, passed=0, failed=0, missing=0, errors=0)
    summary = SummaryRecord(
        schema_version="benchmark_summary_v1",
        run_id="run-1",
        benchmark=BENCHMARK,
        totals=totals,
        variants=(),
        ext={"basis": {"chain": chain}},
    )
    return canonical.encode_line(seal_summary(summary))


if __name__ == "__main__":
    asyncio.run(write_all(Path(sys.argv[1])))
    say("hits", json.dumps(points.hits))
