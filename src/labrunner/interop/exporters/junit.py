"""Writes a run as JUnit XML, for CI pages: suite = variant, case = task and replication.

Fail is a failure, an error is an error with its cause, and what is owed or not to be used is skipped.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from labrunner.interop.exporter import Exporter
from labrunner.interop.exporters.cases import Case, list_cases
from labrunner.runner.reports.lookup import RunInFull

# Characters that XML 1.0 has no way to write, not even escaped.
_UNWRITABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(seen: RunInFull, target: Path) -> tuple[Path, ...]:
    """Write the file."""
    with target.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in render(seen.record.run_id, list_cases(seen)))
    return (target,)


FORMAT: Final = Exporter(ending=".junit.xml", write=write)


def render(name: str, suites: dict[str, list[Case]]) -> Iterator[str]:
    """The lines of the file."""
    every = [case for cases in suites.values() for case in cases]
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites name={_attribute(name)} {_counts(every)}>"  # it has no `skipped` in CI's schemas
    for variant_id, cases in suites.items():
        skipped = sum(case.ending in {"owed", "invalidated"} for case in cases)
        yield f'  <testsuite name={_attribute(variant_id)} {_counts(cases)} skipped="{skipped}">'
        for case in cases:
            yield from _render_case(case, name)
        yield "  </testsuite>"
    yield "</testsuites>"


def _counts(cases: Sequence[Case]) -> str:
    endings = Counter(case.ending for case in cases)
    seconds = sum(case.time_s or 0.0 for case in cases)
    return (
        f'tests="{len(cases)}" failures="{endings["fail"]}" errors="{endings["error"]}" time="{seconds:.3f}"'
    )


def _render_case(case: Case, run_id: str) -> Iterator[str]:
    head = (
        f"    <testcase classname={_attribute(case.variant_id)} "
        f"name={_attribute(f'{case.task_id} [{case.repl_idx}]')} "
        f'time="{case.time_s or 0.0:.3f}"'
    )
    told = _describe(case, run_id)
    if told is None:
        yield f"{head}/>"
        return
    yield f"{head}>"
    yield f"      {told}"
    yield "    </testcase>"


def _describe(case: Case, run_id: str) -> str | None:
    match case.ending:
        case "pass":
            return None
        case "fail":
            limit = f", ended by {case.ended_by}" if case.ended_by else ""
            value = "" if case.value is None else f"{case.metric} = {case.value:g}"
            text = "\n".join([*case.said, f"to look at it: lab show {run_id} {case.trial_id}"])
            message = _attribute(value + limit)
            return f'<failure type="fail" message={message}>{escape(_writable(text))}</failure>'
        case "error":
            kind, text = case.cause or "runner", case.message or ""
            reason = _attribute(case.reason or kind)
            return f"<error type={_attribute(kind)} message={reason}>{escape(_writable(text))}</error>"
        case "owed":
            return '<skipped message="owed: not run yet"/>'
        case "invalidated":
            return f"<skipped message={_attribute(f'not to be used: {case.reason}')}/>"


def _attribute(text: str) -> str:
    return quoteattr(_writable(text))


def _writable(text: str) -> str:
    return _UNWRITABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
