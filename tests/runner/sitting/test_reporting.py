"""What a sitting tells those who look from outside."""

import asyncio
from pathlib import Path

from labrunner.experiment import codec
from labrunner.experiment.schedule import Schedule
from labrunner.runner.newrun import make_record
from labrunner.runner.plan import Plan
from labrunner.runner.sitting.course import Tallies
from labrunner.runner.sitting.reporting import Reporter
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_status
from labrunner.store.writing.create import create_run
from labrunner.store.writing.writer import open_writer
from tests.kit.runner.running import make_sums

LOOK_S = 0.05


async def until_told(paths: RunPaths, running: int) -> None:
    """Look at the status, as others do, until it says how many trials run."""
    async with asyncio.timeout(20):
        while (status := read_status(paths)) is None or status.counts.running != running:
            await asyncio.sleep(LOOK_S)


async def test_the_status_says_how_many_trials_run_though_none_comes_to_its_end(tmp_path: Path) -> None:
    experiment = make_sums()
    schedule = Schedule.of(experiment)
    record = make_record(experiment, run_id="the-run")
    paths = create_run(tmp_path, record, codec.task_lines(experiment), schedule.lines(experiment))
    plan = Plan(
        experiment=experiment, schedule=schedule, run_id="the-run", paths=paths, concurrency=4, grace_s=0.0
    )
    tallies = Tallies(planned=len(schedule), running=3)
    async with open_writer(paths) as writer, asyncio.TaskGroup() as group:
        reporting = group.create_task(Reporter(plan, writer, tallies).keep_fresh())
        await until_told(paths, 3)
        tallies.running = 0
        await until_told(paths, 0)
        reporting.cancel()
