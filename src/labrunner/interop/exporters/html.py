"""Writes a run as one self-contained web page: summary, charts, warnings, and a sortable table of trials.

Rules: nothing is fetched from elsewhere, and the page's own policy forbids it; what a sandbox or an author
wrote is text, never markup: it is escaped, or handed to the script as data that only becomes text.
"""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources
from itertools import zip_longest
from pathlib import Path
from typing import Final

from labrunner.analysis.comparing.comparison import Comparison
from labrunner.analysis.describing.figures import Figures
from labrunner.analysis.describing.repeated import Bounded
from labrunner.analysis.judging.cautions import ONLY_AT_THE_END, describe_caution
from labrunner.analysis.judging.sentences import describe
from labrunner.analysis.report import Report
from labrunner.analysis.summary import read_lineage, read_report
from labrunner.analysis.sums.lineage import describe_lineage
from labrunner.interop.exporter import Exporter
from labrunner.interop.exporters.cases import Case, iter_cases
from labrunner.interop.exporters.markdown import number, write_p
from labrunner.interop.exporters.svg import SvgMark, draw_marks
from labrunner.records.facts.call_usage import UNPRICED
from labrunner.runner.reports.lookup import RunInFull

_COLUMNS: Final = (
    "variant", "task", "repl", "ending", "metric", "value", "cause", "reason", "ended by", "flags",
    "attempts", "time (s)", "tokens", "cost (USD)", "trial", "message",
)  # fmt: skip
LONGEST_MESSAGE: Final = 500
NUMBER: Final = " class='number'"
_QUANTITIES: Final = {
    "time_s": "time (s)",
    "agent_s": "agent's time (s)",
    "cpu_s": "cpu time (s)",
    "tokens": "tokens",
    "cost_usd": "cost (USD)",
    UNPRICED: "calls without a price",
}
_FIGURE: Final = re.compile(r"-|(< )?[-+]?[\d,.]+(e[-+]\d+)?%?")


def write(seen: RunInFull, target: Path) -> tuple[Path, ...]:
    """Write the page."""
    with target.open("w", encoding="utf-8") as stream:
        stream.writelines(render(seen))
    return (target,)


FORMAT: Final = Exporter(ending=".html", write=write)


def render(seen: RunInFull) -> Iterator[str]:
    """The page, piece by piece."""
    report = read_report(seen.summary)
    style, script = _asset("style.css"), _asset("script.js")
    yield from _head(seen.record.name, style, script)
    yield from _intro(seen)
    yield from _summary(report)
    yield from _differences(report.comparisons)
    yield from _notes(report, seen)
    yield from _trials(seen, script)
    yield "</body></html>\n"


def _head(title: str, style: str, script: str) -> Iterator[str]:
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    yield "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
    yield f"<title>{escape(title)}</title>\n<style>{style}</style></head><body>\n"


def _intro(seen: RunInFull) -> Iterator[str]:
    totals = seen.summary.totals
    yield f"<h1>{escape(seen.record.name)}</h1>\n"
    yield (
        f"<p>Run <code>{escape(seen.record.run_id)}</code>, {escape(seen.state)}: "
        f"{totals.trials:,} of {seen.record.planned:,} trials.<br>"
    )
    digest = f"Digest <code>{escape(seen.status.chain)}</code>. " if seen.status.chain else ""
    yield f"{digest}Experiment <code>{escape(seen.record.digests.experiment)}</code>.</p>\n"
    told = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in _origin(seen))
    yield f"<dl class='origin'>{told}</dl>\n"


def _origin(seen: RunInFull) -> Iterator[tuple[str, str]]:
    """When, with what and from which state of the experiment's folder, escaped."""
    came, ended_at = seen.record.provenance, seen.status.ended_at
    yield "begun", escape(seen.record.created_at) + (f", ended {escape(ended_at)}" if ended_at else "")
    yield "command", f"<code>{escape(shlex.join(['lab', *came.argv[1:]]))}</code>"
    if came.git is not None:
        changed = ", with changes that are not committed" if came.git.dirty else ""
        yield "git", f"<code>{escape(came.git.commit)}</code>{changed}"
    yield "made by", escape(f"labrunner {came.labrunner}, Python {came.python}, {came.platform}")


def _summary(report: Report) -> Iterator[str]:
    columns = ("variant", "planned", "graded", "pass", "fail", "errors", "retried", "mean", "95% interval",
               "lower", "upper", "coverage")  # fmt: skip
    yield "<h2>Variants</h2>\n"
    yield _table(columns, [_row(each) for each in report.figures])
    marks = [_mark(each) for each in report.figures if each.observed is not None]
    if marks and len({each.measure for each in report.figures if each.graded}) == 1:
        yield draw_marks(marks, within=(0.0, 1.0))
    rows = [
        (each.variant_id, str(one.k), _bounded(one.any_passes), _bounded(one.all_pass))
        for each in report.figures
        for one in each.repeated
    ]
    if rows:
        yield "<h2>Repeated success</h2>\n" + _table(("variant", "k", "pass@k", "pass^k"), rows)
    spent = [
        (
            each.variant_id,
            _QUANTITIES.get(name, name),
            f"{one.trials:,}",
            *map(_amount, (one.median, one.p95, one.total, one.discarded)),
        )
        for each in report.figures
        for name, one in each.expense.items()
    ]
    if spent:
        heads = ("variant", "a trial", "trials", "median", "p95", "all attempts", "discarded")
        yield "<h2>Cost and time</h2>\n" + _table(heads, spent)


def _bounded(figure: Bounded) -> str:
    interval = "" if figure.low is None else f" ({number(figure.low)} to {number(figure.high)})"
    return f"{number(figure.value)}{interval}"


def _amount(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1000 or amount == 0 else f"{amount:.4g}"


def _row(figures: Figures) -> tuple[str, ...]:
    interval = figures.interval
    counts = (
        figures.planned,
        figures.graded,
        figures.passed,
        figures.failed,
        figures.errors,
        figures.retried,
    )
    return (
        figures.variant_id,
        *(f"{count:,}" for count in counts),
        number(figures.observed),
        f"{number(interval.low)} to {number(interval.high)} ({interval.method})" if interval else "undefined",
        number(figures.lower),
        number(figures.upper),
        "-" if figures.coverage is None else f"{100 * figures.coverage:.1f}%",
    )


def _mark(figures: Figures) -> SvgMark:
    interval = figures.interval
    return SvgMark(
        label=figures.variant_id,
        value=figures.observed or 0.0,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )


def _differences(comparisons: Sequence[Comparison]) -> Iterator[str]:
    known = [each for each in comparisons if each.difference is not None]
    if not known:
        return
    columns = ("", "difference", "interval", "p", "better", "alike", "worse", "detectable", "conclusion")
    rows = [
        (
            f"{each.other} - {each.baseline}",
            f"{each.difference:+.3f}",
            _range(each),
            write_p(each.answer.p_adjusted if each.answer else None),
            str(each.wins),
            str(each.ties),
            str(each.losses),
            number(each.detectable),
            each.conclusion,
        )
        for each in known
    ]
    yield "<h2>Differences</h2>\n" + _table(columns, rows)
    yield from (f"<p>{escape(describe(each))}</p>" for each in known)
    marks = [
        SvgMark(
            label=f"{each.other} - {each.baseline}",
            value=each.difference or 0.0,
            low=each.answer.interval.low if each.answer else None,
            high=each.answer.interval.high if each.answer else None,
        )
        for each in known
    ]
    yield draw_marks(marks, zero=True)


def _range(comparison: Comparison) -> str:
    answer = comparison.answer
    return f"{number(answer.interval.low)} to {number(answer.interval.high)}" if answer else "undefined"


def _notes(report: Report, seen: RunInFull) -> Iterator[str]:
    if (lineage := read_lineage(seen.summary)) is not None:
        yield f"<h2>Lineage</h2>\n<p>{escape(describe_lineage(lineage))}.</p>\n"
    if report.retry_shift is not None:
        heads = ("variant", "retried", "rate", "scored 0", "as they ended", "scored 1", "left out")
        rows = [
            (
                each.variant_id,
                f"{each.retried:,}",
                f"{100 * each.rate:.1f}%",
                *map(number, (each.as_zero, each.headline, each.as_one, each.left_out)),
            )
            for each in report.retry_shift.variants
        ]
        yield "<h2>Retries</h2>\n" + _table(heads, rows)
        yield f"<p>{escape(report.retry_shift.verdict)}.<br>"
        yield f"<span class='dim'>{escape(report.retry_shift.caution)}.</span></p>\n"
    is_over, run = seen.state != "started", seen.record.run_id
    warnings = [each for each in report.cautions if is_over or each.kind not in ONLY_AT_THE_END]
    if warnings:
        listed = "".join(f"<li>{escape(describe_caution(each, run))}</li>" for each in warnings)
        yield f"<h2>Warnings</h2>\n<ul class='warnings'>{listed}</ul>\n"


def _trials(seen: RunInFull, script: str) -> Iterator[str]:
    yield "<h2>Trials</h2>\n<div class='controls'>"
    yield "<input id='filter' type='search' placeholder='filter: words' aria-label='filter'>"
    yield "<span id='note' class='dim'></span>"
    yield "<button id='more' type='button' hidden>show more</button></div>\n"
    heads = "".join(f"<th tabindex='0'>{escape(name)}</th>" for name in _COLUMNS)
    yield "<div class='wide'>"
    yield f"<table id='trials'><thead><tr>{heads}</tr></thead><tbody></tbody></table></div>\n"
    yield "<noscript>The table of trials needs scripts; everything else does not.</noscript>\n"
    yield f'<script type="application/json" id="data">{{"columns":{_data(_COLUMNS)},"rows":['
    separator = ""
    for case in iter_cases(seen):
        yield separator + _data(_values(case))
        separator = ",\n"
    yield f"]}}</script>\n<script>{script}</script>\n"


def _values(case: Case) -> tuple[object, ...]:
    return (
        case.variant_id, case.task_id, case.repl_idx, case.ending, case.metric, case.value, case.cause,
        case.reason, case.ended_by, ", ".join(case.flags) or None, case.attempts, case.time_s, case.tokens,
        case.cost_usd, case.trial_id, case.message and case.message[:LONGEST_MESSAGE],
    )  # fmt: skip


def _data(value: object) -> str:
    """JSON that can't end the script element that it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    kinds = [all(map(_FIGURE.fullmatch, cells)) for cells in zip(*rows, strict=True)]
    heads = "".join(
        f"<th{NUMBER if is_number else ''}>{escape(name)}</th>"
        for name, is_number in zip_longest(columns, kinds)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row, columns))}</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>\n"


def _cell(text: str, head: str) -> str:
    """A cell that knows its column's name: where a table is too wide, its rows become lists."""
    return f"<td data-head='{escape(head)}'{NUMBER if _FIGURE.fullmatch(text) else ''}>{escape(text)}</td>"


def _asset(name: str) -> str:
    return (resources.files("labrunner.interop") / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    """What the page's policy calls a piece of style or script that it trusts."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
