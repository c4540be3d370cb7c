"""The tables that SQL sees: flat, typed, one row a trial, attempt, score, metric, call or event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

IDS: Final = "STRUCT(run_id VARCHAR, trial_id VARCHAR, variant_id VARCHAR, task_id VARCHAR, repl_idx BIGINT)"
_WHOSE: Final = "ids.run_id, schedule_idx, ids.trial_id, ids.variant_id, ids.task_id, ids.repl_idx"
_PHASE: Final = "STRUCT(exit_status INTEGER, timed_out BOOLEAN, oom_killed BOOLEAN, over_disk BOOLEAN)"
_FACT: Final = (
    f"STRUCT(attempt INTEGER, outcome VARCHAR, cause VARCHAR, reason VARCHAR, setup {_PHASE}, "
    f"agent {_PHASE}, grader {_PHASE}, grader_tries INTEGER)"
)
_TIMING: Final = (
    "STRUCT(attempt INTEGER, started_at VARCHAR, ended_at VARCHAR, host VARCHAR, node VARCHAR, "
    "sandbox VARCHAR, phases_s MAP(VARCHAR, DOUBLE), usage MAP(VARCHAR, DOUBLE), limits JSON, "
    "message VARCHAR, traceback VARCHAR, adopted BOOLEAN, masked_secrets INTEGER, agent_outcome VARCHAR, "
    "agent_error VARCHAR, left_nothing BOOLEAN)"
)
EARLIER: Final = (
    "STRUCT(run_id VARCHAR, attempt INTEGER, standing VARCHAR, outcome VARCHAR, verdict VARCHAR, "
    "primary_metric_value DOUBLE, cause VARCHAR, reason VARCHAR, agent JSON, started_at VARCHAR, "
    "ended_at VARCHAR, phases_s MAP(VARCHAR, DOUBLE), usage MAP(VARCHAR, DOUBLE), message VARCHAR, "
    "judged_in VARCHAR)"
)
"""An attempt of an earlier run."""
_CALL: Final = (
    f"STRUCT(ids {IDS}, attempt INTEGER, ordinal BIGINT, provider VARCHAR, protocol VARCHAR, "
    "purpose VARCHAR, model VARCHAR, answered_by VARCHAR, streaming BOOLEAN, started_at VARCHAR, "
    'first_byte_at VARCHAR, ended_at VARCHAR, "end" VARCHAR, status INTEGER, stop_reason VARCHAR, '
    "tokens STRUCT(input BIGINT, output BIGINT, cache_read BIGINT, cache_write BIGINT, reasoning BIGINT, "
    "basis VARCHAR), cost_usd DOUBLE, price_source VARCHAR, priced_on VARCHAR, taken_out VARCHAR[], "
    "tries STRUCT(status INTEGER)[], error STRUCT(kind VARCHAR, message VARCHAR), trouble VARCHAR, "
    "request VARCHAR, answer VARCHAR, replayed VARCHAR)"
)
_DOOR: Final = (
    f"STRUCT(ids {IDS}, attempt INTEGER, ordinal BIGINT, phase VARCHAR, way VARCHAR, host VARCHAR, "
    'port INTEGER, address VARCHAR, "end" VARCHAR, reason VARCHAR, message VARCHAR, started_at VARCHAR, '
    "ended_at VARCHAR, seconds DOUBLE, sent BIGINT, received BIGINT, times BIGINT)"
)
REROLL: Final = (
    "a.standing IN ('failed', 'invalidated', 'replaced') "
    "AND (a.agent IS NULL OR a.phases_s['agent'] IS NOT NULL)"
)
"""Which of those put the same question to an agent, as `EarlierAttempt.is_reroll` has it."""
LONGEST_LINE: Final = 1 << 30
"""Bytes of a line that are read; a task's is as long as its author likes."""
_PHASES: Final = ("prepare", "setup", "agent", "barrier", "bring_grader", "grader", "collect")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlView:
    """A table: which file it is made from, what is read of a line, and what is selected."""

    file: str
    reads: Mapping[str, str]
    """Fields of a line and their types; everything else is passed over."""
    selects: str
    """SQL over `rows`, which has those fields and `committed`."""
    key: str = "schedule_idx"
    """The column that is there even when a query names none."""


VIEWS: Final[Mapping[str, SqlView]] = MappingProxyType(
    {
        "trials": SqlView(
            file="trials",
            reads={
                "schedule_idx": "BIGINT",
                "ids": IDS,
                "outcome": "VARCHAR",
                "verdict": "VARCHAR",
                "primary_metric_name": "VARCHAR",
                "primary_metric_value": "DOUBLE",
                "cause": "VARCHAR",
                "reason": "VARCHAR",
                "ended_by": "VARCHAR",
                "flags": "VARCHAR[]",
                "barrier": "VARCHAR",
                "attempt": "INTEGER",
                "attempts": "STRUCT(attempt INTEGER)[]",
                "task_digest": "VARCHAR",
                "variant_digest": "VARCHAR",
            },
            selects=f"""
                SELECT {_WHOSE}, groups.task_group, outcome, verdict, verdict = 'pass' AS passed,
                    primary_metric_name AS metric, primary_metric_value AS value, cause, rows.reason,
                    ended_by, flags, barrier, len(rows.attempts) AS attempts,
                    coalesce(before.attempts, 0) AS earlier_attempts,
                    len(rows.attempts) + coalesce(before.rerolls, 0) > 1 AS retried,
                    committed, marks.trial_id IS NOT NULL AS invalidated, marks.reason AS invalidated_because,
                    task_digest, variant_digest
                FROM rows
                LEFT JOIN groups ON groups.run_id = ids.run_id AND groups.task_id = ids.task_id
                LEFT JOIN before ON before.run_id = ids.run_id AND before.trial_id = ids.trial_id
                LEFT JOIN marks ON marks.run_id = ids.run_id AND marks.trial_id = ids.trial_id
            """,
        ),
        "attempts": SqlView(
            file="trials",
            reads={"schedule_idx": "BIGINT", "ids": IDS, "attempts": f"{_FACT}[]"},
            selects=f"""
                SELECT {_WHOSE}, a.attempt, a.attempt = last_attempt AS is_last, a.outcome, a.cause, a.reason,
                    a.setup.exit_status AS setup_exit, a.agent.exit_status AS agent_exit,
                    coalesce(a.agent.timed_out, false) AS agent_timed_out,
                    coalesce(a.agent.oom_killed, false) AS agent_oom_killed,
                    coalesce(a.agent.over_disk, false) AS agent_over_disk,
                    a.grader.exit_status AS grader_exit,
                    coalesce(a.grader.timed_out, false) AS grader_timed_out, a.grader_tries, committed
                FROM (SELECT *, unnest(attempts) AS a, attempts[-1].attempt AS last_attempt FROM rows)
            """,
        ),
        "scores": SqlView(
            file="scores",
            reads={
                "schedule_idx": "BIGINT",
                "ids": IDS,
                "attempt": "INTEGER",
                "row_seq": "INTEGER",
                "verdict": "VARCHAR",
                "primary_metric_name": "VARCHAR",
                "primary_metric_value": "DOUBLE",
                "evaluator": "STRUCT(name VARCHAR, mode VARCHAR, version VARCHAR)",
                "metrics": "JSON",
                "artifacts": "JSON",
                "ext": "JSON",
            },
            selects=f"""
                SELECT {_WHOSE}, attempt, row_seq, verdict, primary_metric_name AS metric,
                    primary_metric_value AS value, evaluator.name AS evaluator,
                    evaluator.mode AS evaluator_mode, metrics, artifacts, ext, committed
                FROM rows
            """,
        ),
        "predictions": SqlView(
            file="predictions",
            reads={
                "schedule_idx": "BIGINT",
                "ids": IDS,
                "attempt": "INTEGER",
                "row_seq": "INTEGER",
                "prediction": "STRUCT(kind VARCHAR, value JSON, artifact_ref VARCHAR, metadata JSON)",
            },
            selects=f"""
                SELECT {_WHOSE}, attempt, row_seq, prediction.kind AS kind, prediction.value AS value,
                    prediction.value ->> '$' AS text, prediction.artifact_ref AS artifact_ref,
                    prediction.metadata AS metadata, committed
                FROM rows
            """,
        ),
        "metrics": SqlView(
            file="scores",
            reads={
                "schedule_idx": "BIGINT",
                "ids": IDS,
                "primary_metric_name": "VARCHAR",
                "primary_metric_value": "DOUBLE",
                "metrics": "MAP(VARCHAR, JSON)",
            },
            selects=f"""
                SELECT {_WHOSE}, primary_metric_name AS name, primary_metric_value AS number,
                    NULL::VARCHAR AS text, true AS is_primary, committed
                FROM rows
                UNION ALL
                SELECT {_WHOSE}, m.key AS name,
                    CASE json_type(m.value) WHEN 'BOOLEAN' THEN (m.value = 'true')::DOUBLE
                        WHEN 'VARCHAR' THEN NULL ELSE TRY_CAST(m.value AS DOUBLE) END AS number,
                    CASE json_type(m.value) WHEN 'VARCHAR' THEN m.value ->> '$' END AS text,
                    false AS is_primary, committed
                FROM (SELECT *, unnest(map_entries(metrics)) AS m FROM rows)
                WHERE m.key <> primary_metric_name
            """,
        ),
        "timings": SqlView(
            file="timings",
            reads={"schedule_idx": "BIGINT", "ids": IDS, "attempts": f"{_TIMING}[]"},
            selects=f"""
                SELECT {_WHOSE}, a.attempt, a.attempt = last_attempt AS is_last,
                    TRY_CAST(a.started_at AS TIMESTAMP) AS started_at,
                    TRY_CAST(a.ended_at AS TIMESTAMP) AS ended_at, a.host, a.node, a.sandbox,
                    list_sum(map_values(a.phases_s)) AS time_s,
                    {", ".join(f"a.phases_s['{phase}'] AS {phase}_s" for phase in _PHASES)},
                    a.usage['tokens'] AS tokens, a.usage['cost_usd'] AS cost_usd, a.usage['cpu_s'] AS cpu_s,
                    a.usage['max_rss_mb'] AS max_rss_mb, a.usage, a.limits, a.message, a.traceback,
                    coalesce(a.adopted, false) AS adopted, a.agent_outcome, a.agent_error,
                    coalesce(a.left_nothing, false) AS left_nothing,
                    coalesce(a.masked_secrets, 0) AS masked_secrets, committed
                FROM (SELECT *, unnest(attempts) AS a, attempts[-1].attempt AS last_attempt FROM rows)
            """,
        ),
        "earlier": SqlView(
            file="earlier",
            reads={"schedule_idx": "BIGINT", "ids": IDS, "attempts": f"{EARLIER}[]"},
            selects=f"""
                SELECT {_WHOSE}, a.run_id AS made_in, a.attempt, a.standing, a.judged_in, a.outcome,
                    a.verdict, a.primary_metric_value AS value, a.cause, a.reason,
                    TRY_CAST(a.started_at AS TIMESTAMP) AS started_at,
                    TRY_CAST(a.ended_at AS TIMESTAMP) AS ended_at,
                    list_sum(map_values(a.phases_s)) AS time_s, a.usage['tokens'] AS tokens,
                    a.usage['cost_usd'] AS cost_usd, a.usage, a.message
                FROM (SELECT *, unnest(attempts) AS a FROM rows)
            """,
        ),
        "tasks": SqlView(
            file="tasks",
            reads={
                "id": "VARCHAR",
                "group": "VARCHAR",
                "tags": "VARCHAR[]",
                "metadata": "JSON",
                "prompt": "VARCHAR",
                "input": "JSON",
                "target": "JSON",
                "image": "VARCHAR",
                "digest": "VARCHAR",
            },
            selects="""
                SELECT of_run AS run_id, id AS task_id, "group" AS task_group, tags, metadata, prompt, input,
                    target, image, digest AS task_digest
                FROM rows
            """,
            key="task_id",
        ),
        "runs": SqlView(
            file="runs",
            reads={
                "run_id": "VARCHAR",
                "lineage_id": "VARCHAR",
                "name": "VARCHAR",
                "tags": "VARCHAR[]",
                "created_at": "VARCHAR",
                "planned": "BIGINT",
                "metadata": "JSON",
                "digest": "VARCHAR",
            },
            selects="""
                SELECT run_id, lineage_id, name, tags, TRY_CAST(created_at AS TIMESTAMP) AS created_at,
                    planned, metadata, digest AS experiment_digest
                FROM rows
            """,
            key="run_id",
        ),
        "outages": SqlView(
            file="outages",
            reads={
                "run_id": "VARCHAR",
                "cause": "VARCHAR",
                "began_at": "VARCHAR",
                "ended_at": "VARCHAR",
                "end": "VARCHAR",
            },
            selects="""
                SELECT run_id, cause, TRY_CAST(began_at AS TIMESTAMP) AS began_at,
                    TRY_CAST(ended_at AS TIMESTAMP) AS ended_at,
                    epoch_ms(TRY_CAST(ended_at AS TIMESTAMP) - TRY_CAST(began_at AS TIMESTAMP)) / 1000.0
                        AS seconds,
                    "end" AS ended_by
                FROM rows
            """,
            key="began_at",
        ),
        "calls": SqlView(
            file="calls",
            reads={"run_id": "VARCHAR", "attempt": "VARCHAR", "row": _CALL},
            selects="""
                SELECT run_id, c.ids.trial_id, c.ids.variant_id, c.ids.task_id, c.ids.repl_idx, c.attempt,
                    contains(folder, '.cut-') AS cut_off, c.ordinal, c.provider, c.protocol, c.purpose,
                    c.model, c.answered_by, coalesce(c.streaming, false) AS streaming,
                    TRY_CAST(c.started_at AS TIMESTAMP) AS started_at,
                    TRY_CAST(c.first_byte_at AS TIMESTAMP) AS first_byte_at,
                    TRY_CAST(c.ended_at AS TIMESTAMP) AS ended_at,
                    epoch_ms(TRY_CAST(c.ended_at AS TIMESTAMP) - TRY_CAST(c.started_at AS TIMESTAMP)) / 1000.0
                        AS seconds,
                    c."end" AS outcome, c.status, c.stop_reason, c.tokens.input AS input_tokens,
                    c.tokens.output AS output_tokens,
                    CASE WHEN c.tokens IS NOT NULL THEN coalesce(c.tokens.cache_read, 0) END
                        AS cache_read_tokens,
                    CASE WHEN c.tokens IS NOT NULL THEN coalesce(c.tokens.cache_write, 0) END
                        AS cache_write_tokens,
                    CASE WHEN c.tokens IS NOT NULL THEN coalesce(c.tokens.reasoning, 0) END
                        AS reasoning_tokens,
                    CASE WHEN c.tokens IS NOT NULL THEN coalesce(c.tokens.basis, 'reported') END AS basis,
                    c.cost_usd, c.price_source, TRY_CAST(c.priced_on AS DATE) AS priced_on,
                    coalesce(len(c.tries), 0) AS tries, c.error.kind AS error_kind, c.error.message AS error,
                    coalesce(c.taken_out, []) AS taken_out, c.trouble, c.request, c.answer,
                    c.replayed IS NOT NULL AS replayed
                FROM (SELECT run_id, attempt AS folder, "row" AS c FROM rows)
            """,
            key="ordinal",
        ),
        "doors": SqlView(
            file="doors",
            reads={"run_id": "VARCHAR", "attempt": "VARCHAR", "row": _DOOR},
            selects="""
                SELECT run_id, d.ids.trial_id, d.ids.variant_id, d.ids.task_id, d.ids.repl_idx, d.attempt,
                    contains(folder, '.cut-') AS cut_off, d.ordinal, d.phase, d.way, d.host, d.port,
                    d.address, d."end" AS outcome, d.reason, d.message,
                    TRY_CAST(d.started_at AS TIMESTAMP) AS started_at,
                    TRY_CAST(d.ended_at AS TIMESTAMP) AS ended_at, coalesce(d.seconds, 0.0) AS seconds,
                    coalesce(d.sent, 0) AS sent, coalesce(d.received, 0) AS received,
                    coalesce(d.times, 1) AS times
                FROM (SELECT run_id, attempt AS folder, "row" AS d FROM rows)
            """,
            key="ordinal",
        ),
        "events": SqlView(
            file="events",
            reads={
                "run_id": "VARCHAR",
                "trial_id": "VARCHAR",
                "attempt": "INTEGER",
                "seq": "BIGINT",
                "event": "JSON",
            },
            selects="""
                SELECT run_id, trial_id, attempt, seq,
                    coalesce(event ->> '$.type', event ->> '$.event') AS type, event
                FROM rows
            """,
            key="seq",
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A file of rows."""

    path: str
    is_committed: bool
    run_id: str
    """Whose it is, for rows that do not say so."""


def make_table(name: str, files: Sequence[RowFile], reached: frozenset[str] | None) -> str:
    """SQL that makes a view's table from files.

    Only with columns that are reached, unless that is None: DuckDB then reads nothing else from a line.
    """
    view = VIEWS[name]
    rows = f"CREATE OR REPLACE TABLE {name} AS WITH rows AS ({_read_rows(view, files)})"
    if reached is None:
        return f"{rows} {view.selects}"
    listed = ", ".join(map(quote, sorted({*reached, view.key})))
    return f"{rows} SELECT COLUMNS(lambda name: name IN ({listed})) FROM ({view.selects})"


def _read_rows(view: SqlView, files: Sequence[RowFile]) -> str:
    # File by file: DuckDB reads several at once in whatever order its threads come to them.
    return " UNION ALL ".join(_read(view, file) for file in files)


def _read(view: SqlView, file: RowFile) -> str:
    columns = ", ".join(f"{quote(name)}: {quote(kind)}" for name, kind in view.reads.items())
    return (
        f"SELECT *, {str(file.is_committed).lower()} AS committed, {quote(file.run_id)} AS of_run "
        f"FROM read_json({quote(file.path)}, format = 'newline_delimited', columns = {{{columns}}}, "
        f"maximum_object_size = {LONGEST_LINE})"
    )


def quote(text: str) -> str:
    """Write text as SQL does."""
    return "'" + text.replace("'", "''") + "'"
