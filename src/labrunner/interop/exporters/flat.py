"""Writes a run as one flat table, a row a trial: CSV or Parquet.

Read slice by slice: a run of any size takes the same memory.
"""

from pathlib import Path
from typing import Final

from labrunner.interop.exporter import Exporter
from labrunner.query.formats import write_csv
from labrunner.query.slices import ask_in_slices
from labrunner.store.layout import RunPaths

TABLES: Final = ("trials", "timings", "scores")
SQL: Final = """
    SELECT trials.*, spent.* EXCLUDE (run_id, trial_id), scores.metrics
    FROM trials
    LEFT JOIN (
        SELECT run_id, trial_id, min(started_at) AS started_at, max(ended_at) AS ended_at,
            sum(time_s) AS time_s, sum(agent_s) AS agent_s, sum(tokens) AS tokens,
            sum(cost_usd) AS cost_usd, sum(cpu_s) AS cpu_s,
            max_by(message, attempt) AS message
        FROM timings GROUP BY run_id, trial_id
    ) AS spent USING (run_id, trial_id)
    LEFT JOIN scores USING (run_id, trial_id)
    ORDER BY trials.run_id, trials.schedule_idx
"""


def write_table(paths: RunPaths, target: Path) -> tuple[Path, ...]:
    """Write CSV."""
    with (
        ask_in_slices(paths, SQL, TABLES) as answer,
        target.open("w", encoding="utf-8", newline="") as stream,
    ):
        write_csv(answer, stream)
    return (target,)


def write_parquet(paths: RunPaths, target: Path) -> tuple[Path, ...]:
    """Write Parquet."""
    with ask_in_slices(paths, SQL, TABLES) as answer:
        answer.write_parquet(target)
    return (target,)


CSV: Final = Exporter(
    ending=".csv", write=lambda seen, target: write_table(seen.paths, target), write_rows=write_table
)
PARQUET: Final = Exporter(
    ending=".parquet", write=lambda seen, target: write_parquet(seen.paths, target), write_rows=write_parquet
)
