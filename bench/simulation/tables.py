"""The tables of docs/statistics.md: what the long simulations found."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.simulation.catalogue import TAKEN, Setting, find
from bench.simulation.populations import SAME
from bench.simulation.studies import Figures

PAGE: Final = Path(__file__).parents[2] / "docs" / "statistics.md"
BEGIN: Final = "<!-- tables: scripts/simulate --long -->"
END: Final = "<!-- end of tables -->"
Result = tuple[str, Setting, Figures]


def fill(results: Sequence[Result], page: Path = PAGE) -> None:
    """Replace what stands between the marks."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page}: expected the lines {BEGIN!r} and {END!r}")
    page.write_text(f"{before}{BEGIN}\n\n{render(results)}\n\n{END}{after}")


def render(results: Sequence[Result]) -> str:
    """All tables."""

    def of(name: str) -> list[tuple[Setting, Figures]]:
        return [(setting, figures) for each, setting, figures in results if each == name]

    return "\n".join(
        [
            *_means(of("mean")),
            *_repeated(of("pass@k")),
            *_pairs(of("no difference"), of("a difference")),
            *_groups(of("groups, mean"), of("groups, difference")),
            *_power(of("power")),
            *_alarms(of("retries"), of("no outage"), of("an outage")),
        ]
    ).rstrip()


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield title
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join('---' for _ in heads)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}%"


def _span(values: Sequence[float]) -> str:
    return f"{_share(min(values))} to {_share(max(values))}" if values else "-"


def _means(found: Sequence[tuple[Setting, Figures]]) -> Iterator[str]:
    rates = sorted({setting[3] for setting, _ in found})
    worst: dict[tuple[int, int], dict[float, float]] = {}
    for (tasks, trials, _, rate), figures in found:
        row = worst.setdefault((tasks, trials), {})
        row[rate] = min(row.get(rate, 1.0), figures["coverage"])
    yield from _table(
        "**Interval of a mean rate**: how often it holds the truth, at least, over tasks that are alike, "
        f"differ mildly, are U-shaped and are solved always or never ({find('mean').long_runs:,} runs each).",
        ("tasks", "K", *(f"p = {rate:g}" for rate in rates)),
        [
            (str(tasks), str(trials), *(_share(row[rate]) for rate in rates))
            for (tasks, trials), row in sorted(worst.items())
        ],
    )


def _repeated(found: Sequence[tuple[Setting, Figures]]) -> Iterator[str]:
    rows = [
        (
            str(tasks),
            str(k),
            *(
                _span([figures[name] for setting, figures in found if (setting[0], setting[2]) == (tasks, k)])
                for name in ("any", "all")
            ),
        )
        for tasks, k in sorted({(setting[0], setting[2]) for setting, _ in found})
    ]
    yield from _table(
        "**pass@k and pass^k**, K = 5: coverage over true rates of 0.1 to 0.95 "
        f"({find('pass@k').long_runs:,} runs each).",
        ("tasks", "k", "pass@k", "pass^k"),
        rows,
    )


def _pairs(
    without: Sequence[tuple[Setting, Figures]], with_one: Sequence[tuple[Setting, Figures]]
) -> Iterator[str]:
    rows = []
    for tasks, trials in sorted({setting[:2] for setting, _ in without}):
        null = [figures for setting, figures in without if setting[:2] == (tasks, trials)]
        same = [f for setting, f in without if setting[:2] == (tasks, trials) and setting[2] in SAME]
        better = [figures for setting, figures in with_one if setting[:2] == (tasks, trials)]
        rows.append(
            (
                str(tasks),
                str(trials),
                _span([each["coverage"] for each in [*null, *better]]),
                _share(max(each["shown"] for each in null)),
                _share(max(each["t"] for each in null)),
                _share(max(each["here"] for each in same)),
                _span([each["lost"] for each in better]),
            )
        )
    yield from _table(
        "**Paired differences** of rates, over seven populations: coverage with and without a true "
        f"difference; false alarms at 5%, at most ({find('no difference').long_runs:,} runs each): ours, "
        "the plain t test's, and on these tasks; and how much more power the plain t test has.",
        ("tasks", "K", "coverage", "type I", "type I of plain t", "on these tasks", "power lost against t"),
        rows,
    )


def _groups(
    means: Sequence[tuple[Setting, Figures]], pairs: Sequence[tuple[Setting, Figures]]
) -> Iterator[str]:
    layouts = list(dict.fromkeys(setting[0] for setting, _ in pairs))
    rows = []
    for layout in layouts:
        own = [(setting, figures) for setting, figures in pairs if setting[0] == layout]
        rows.append(
            (
                layout,
                _span([figures["coverage"] for setting, figures in means if setting[0] == layout]),
                *(
                    _span([figures["coverage"] for setting, figures in own if setting[1] == effect])
                    for effect in (0.0, 0.3, 1.0)
                ),
            )
        )
    yield from _table(
        "**Groups**: coverage of a mean rate (likeness within groups 0 to 0.7), and of a difference that "
        "groups don't change, change somewhat, and change as much as can be.",
        ("groups", "mean", "difference, none", "some", "most"),
        rows,
    )


def _power(found: Sequence[tuple[Setting, Figures]]) -> Iterator[str]:
    names: dict[Any, str] = {sizes: name for name, sizes in TAKEN.items()}
    rows = [
        (names[setting[0]], str(setting[1]), _number(figures["promised"]), _share(figures["shown"]))
        for setting, figures in found
    ]
    yield from _table(
        "**Power**: the difference that `lab plan` says is shown 4 times out of 5, and how often it is.",
        ("plan", "K", "promised", "shown"),
        rows,
    )


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _alarms(
    retries: Sequence[tuple[Setting, Figures]],
    without: Sequence[tuple[Setting, Figures]],
    with_one: Sequence[tuple[Setting, Figures]],
) -> Iterator[str]:
    yield from _table(
        "**Retries** in 10% of trials that change nothing: how often rates, and odds, are noted.",
        ("tasks", "K", "clustering on tasks", "rates", "odds"),
        [(str(s[0]), str(s[1]), f"{s[2]:g}", _share(f["rate"]), _share(f["odds"])) for s, f in retries],
    )
    rows = []
    for order, trials in sorted({setting[:2] for setting, _ in without}):
        quiet = [f["told"] for s, f in without if s[:2] == (order, trials)]
        struck = [
            [f["told"] for s, f in with_one if s[:2] == (order, trials) and s[3] == hit]
            for hit in (0.15, 0.3, 0.6, 0.9)
        ]
        rows.append((order, str(trials), _share(max(quiet)), *map(_span, struck)))
    yield from _table(
        "**Outages**, 60 tasks: how often one is told where there is none, though agents give up at once on "
        "up to a tenth of the tasks; and where one hit 15% to 90% of the run.",
        ("order", "K", "none", "15%", "30%", "60%", "90%"),
        rows,
    )
