"""The tables of docs/statistics.md: what the long simulations found, and what was counted."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.simulation import limits
from bench.simulation.catalogue import TAKEN, Setting, find
from bench.simulation.studies import MANY, Figures

PAGE: Final = Path(__file__).parents[2] / "docs" / "statistics.md"
BEGIN: Final = "<!-- tables: scripts/simulate --long -->"
BEGIN_LIMITS: Final = "<!-- tables: scripts/simulate --limits -->"
END: Final = "<!-- end of tables -->"
Result = tuple[str, Setting, Figures]


def fill(begin: str, tables: str, page: Path = PAGE) -> None:
    """Put tables in the place of those that stand between the marks under the same titles."""
    before, mark, rest = page.read_text().partition(begin)
    shown, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"{page}: expected the lines {begin!r} and {END!r}")
    merged = _by_title(shown) | _by_title(tables)
    page.write_text("\n\n".join([f"{before}{begin}", *merged.values(), f"{END}{after}"]))


def _by_title(tables: str) -> dict[str, str]:
    """Tables by what stands in bold before them."""
    parts = f"\n{tables}".split("\n**")[1:]
    return {part.partition("**")[0]: f"**{part}".strip() for part in parts}


def render(results: Sequence[Result]) -> str:
    """Every table whose studies are all there."""
    names = {name for name, _, _ in results}
    lines: list[str] = []
    for studies, table in TABLES:
        if names.issuperset(studies):
            found = ([(each[1], each[2]) for each in results if each[0] == name] for name in studies)
            lines += table(*found)
    return "\n".join(lines).rstrip()


def render_limits() -> str:
    """What was counted, not drawn."""
    return "\n".join([*_reach(), *_few(), *_many(), *_flips(), *_held()]).rstrip()


def _reach() -> Iterator[str]:
    yield from _table(
        "**Rates out of reach**: tasks are solved or not. Of true rates from 0 to 1, the share at which no "
        "interval whose ends rise with what is seen holds the truth 94% to 96% of the time; and the rate "
        "beyond which it is more than 96% or less than 4%.",
        ("tasks", "out of reach", "beyond"),
        [
            (str(tasks), _share(limits.rates_out_of_reach(tasks)), f"{limits.BAND[1] ** (1 / tasks):.4f}")
            for tasks in (10, 20, 30, 50, 100)
        ],
    )


def _few() -> Iterator[str]:
    found = [
        (tasks, trials, limits.count_pairs(tasks, trials)) for tasks in limits.FEW for trials in (1, 2, 3)
    ]
    yield from _table(
        "**Six to eight tasks**, every outcome counted: false alarms and power lost, at most, over the seven "
        "populations above.",
        ("tasks", "K", "type I", "type I of plain t", "power lost against t"),
        [
            (str(tasks), str(trials), *(_share(abs(figures[name])) for name in ("shown", "t", "lost")))
            for tasks, trials, figures in found
        ],
    )


def _many() -> Iterator[str]:
    trials = (1, 2, 3)
    yield from _table(
        "**Ten tasks and more**, every outcome counted: false alarms of plain t, at most, over the same. "
        "Ours are the same there.",
        ("tasks", *(f"K = {each}" for each in trials)),
        [
            (str(tasks), *(_share(limits.count_t(tasks, each)) for each in trials))
            for tasks in (10, 12, 16, 20, 30, 50)
        ],
    )


def _flips() -> Iterator[str]:
    found = [(tasks, *limits.worst_flips(tasks)) for tasks in (6, 8, 10, 13, 16, 20)]
    yield from _table(
        "**Coins**: each task has one trial, and a share of the tasks flips one way or the other at random. "
        "The share at which there are the most false alarms.",
        ("tasks", "that flip", "type I"),
        [(str(tasks), _share(share), _share(alarms)) for tasks, alarms, share in found],
    )


def _held() -> Iterator[str]:
    shares = (1.0, 0.8, 0.5, 0.3)
    found = [
        (tasks, [limits.least_held(tasks, share) for share in shares]) for tasks in (6, 8, 10, 12, 16, 20)
    ]
    yield from _table(
        "**Coins that are not fair**: the same, but more go up than down. The least coverage of the "
        "difference, and how many of those that flip go up there.",
        ("tasks", *(f"{100 * share:.0f}% flip" for share in shares)),
        [
            (str(tasks), *(f"{_share(held)} ({100 * rising:.0f}% up)" for held, rising in row))
            for tasks, row in found
        ],
    )


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
                _span([figures[f"{name} {k}"] for setting, figures in found if setting[0] == tasks])
                for name in ("any", "all")
            ),
        )
        for tasks in sorted({setting[0] for setting, _ in found})
        for k in (2, 3, 5)
    ]
    yield from _table(
        "**pass@k and pass^k**, K = 5: coverage over true rates of 0.02 to 0.98 "
        f"({find('pass@k').long_runs:,} runs each).",
        ("tasks", "k", "pass@k", "pass^k"),
        rows,
    )


def _pairs(
    without: Sequence[tuple[Setting, Figures]],
    with_one: Sequence[tuple[Setting, Figures]],
    here: Sequence[tuple[Setting, Figures]],
) -> Iterator[str]:
    rows = []
    for tasks, trials in sorted({setting[:2] for setting, _ in without}):
        null, better, fixed = (
            [figures for setting, figures in each if setting[:2] == (tasks, trials)]
            for each in (without, with_one, here)
        )
        rows.append(
            (
                str(tasks),
                str(trials),
                _span([each["coverage"] for each in [*null, *better]]),
                _share(max(each["shown"] for each in null)),
                _share(max(each["t"] for each in null)),
                _share(max(each["here"] for each in fixed)),
                _span([each["lost"] for each in better]),
            )
        )
    yield from _table(
        "**Paired differences** of rates, over seven populations: coverage with and without a true "
        f"difference; false alarms at 5%, at most ({find('no difference').long_runs:,} runs each, a fifth "
        f"with {MANY} tasks): ours, the plain t test's, and on these tasks "
        f"({find('these tasks').long_runs:,} runs); and how much more power the plain t test has.",
        (
            "tasks",
            "K",
            "coverage",
            "type I",
            "type I of plain t",
            "on these tasks, alone",
            "power lost against t",
        ),
        rows,
    )


def _both(found: Sequence[tuple[Setting, Figures]]) -> Iterator[str]:
    rows = []
    for tasks, trials in sorted({setting[:2] for setting, _ in found}):
        own = [figures for setting, figures in found if setting[:2] == (tasks, trials)]
        rows.append(
            (
                str(tasks),
                str(trials),
                _share(max(each["here"] for each in own)),
                _share(max(each["odd"] for each in own)),
                _share(max(each["cost"] for each in own)),
            )
        )
    yield from _table(
        "**Both answers together**, over two populations in which variants do alike on every task: false "
        "alarms on these tasks, at most; how often something is shown of others and not of these; and what "
        f"power that costs, at most ({find('both questions').long_runs:,} runs each).",
        ("tasks", "K", "on these tasks", "contradictions", "power"),
        rows,
    )


def _scores(found: Sequence[tuple[Setting, Figures]]) -> Iterator[str]:
    kinds = list(dict.fromkeys(setting[2] for setting, _ in found))
    rows = [
        (
            str(tasks),
            str(trials),
            *(_share(each["scores"]) for kind in kinds for s, each in found if s == (tasks, trials, kind)),
        )
        for tasks, trials in sorted({setting[:2] for setting, _ in found})
    ]
    yield from _table(
        "**Measured scores on these tasks**: coverage of the difference, where scores of all tasks scatter "
        "alike (and the effect is thirty times that), far more on some tasks, lognormally, in steps "
        f"({find('scores on these tasks').long_runs:,} runs each).",
        ("tasks", "K", *kinds),
        rows,
    )


def _groups(
    means: Sequence[tuple[Setting, Figures]], pairs: Sequence[tuple[Setting, Figures]]
) -> Iterator[str]:
    layouts = list(dict.fromkeys(setting[0] for setting, _ in pairs))
    rows = []
    for layout in layouts:
        mean, pair = (
            [(setting, figures) for setting, figures in each if setting[0] == layout]
            for each in (means, pairs)
        )
        rows.append(
            (
                layout,
                *(_span([figures[name] for _, figures in mean]) for name in ("coverage", "cr2")),
                *(
                    _span([figures["coverage"] for setting, figures in pair if setting[1] == effect])
                    for effect in (0.0, 0.3, 1.0)
                ),
                _span([figures["cr2"] for _, figures in pair]),
            )
        )
    yield from _table(
        "**Groups**: coverage of a mean rate (likeness within groups 0 to 0.7), and of a difference that "
        "groups don't change, change somewhat, and change as much as can be; beside them the textbook's, "
        f"CR2 with Bell and McCaffrey's degrees of freedom ({find('groups, mean').long_runs:,} runs each).",
        ("groups", "mean", "textbook's", "difference, none", "some", "most", "textbook's"),
        rows,
    )


def _again(
    rates: Sequence[tuple[Setting, Figures]], scores: Sequence[tuple[Setting, Figures]]
) -> Iterator[str]:
    rows = []
    for tasks, trials in sorted({setting[:2] for each in (rates, scores) for setting, _ in each}):
        spans = (
            _span([figures["coverage"] for setting, figures in each if setting[:2] == (tasks, trials)])
            for each in (rates, scores)
        )
        rows.append((str(tasks), str(trials), *spans))
    yield from _table(
        "**These tasks run again**: coverage of a mean rate of 0.1 to 0.98, and of a mean of other scores "
        f"whose tasks scatter alike or unlike ({find('run again, rates').long_runs:,} and "
        f"{find('run again, scores').long_runs:,} runs each).",
        ("tasks", "K", "rates", "other scores"),
        rows,
    )


def _families(found: Sequence[tuple[Setting, Figures]]) -> Iterator[str]:
    yield from _table(
        "**Families**: several comparisons of 12 tasks, some without a true difference: how often all "
        f"intervals hold, and how often any conclusion misleads ({find('families').long_runs:,} runs each).",
        ("comparisons", "without a difference", "all intervals hold", "any misleads"),
        [(str(s[0]), str(s[1]), _share(f["held"]), _share(f["misled"])) for s, f in found],
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


def _retries(found: Sequence[tuple[Setting, Figures]]) -> Iterator[str]:
    yield from _table(
        "**Retries** in 10% of trials that change nothing: how often rates, and odds, are noted.",
        ("tasks", "K", "clustering on tasks", "rates", "odds"),
        [(str(s[0]), str(s[1]), f"{s[2]:g}", _share(f["rate"]), _share(f["odds"])) for s, f in found],
    )


def _outages(
    without: Sequence[tuple[Setting, Figures]], with_one: Sequence[tuple[Setting, Figures]]
) -> Iterator[str]:
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


TABLES: Final[Sequence[tuple[tuple[str, ...], Callable[..., Iterator[str]]]]] = (
    (("mean",), _means),
    (("pass@k",), _repeated),
    (("no difference", "a difference", "these tasks"), _pairs),
    (("both questions",), _both),
    (("scores on these tasks",), _scores),
    (("groups, mean", "groups, difference"), _groups),
    (("run again, rates", "run again, scores"), _again),
    (("families",), _families),
    (("power",), _power),
    (("retries",), _retries),
    (("no outage", "an outage"), _outages),
)
"""Which studies each table is made of."""
