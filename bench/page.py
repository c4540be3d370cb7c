"""Fills the table of docs/performance.md from the newest result of every bench."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import figures
from bench.catalogue import NAMES, Bench, find
from bench.figures import Figure, Result

PAGE: Final = Path(__file__).parent.parent / "docs" / "performance.md"
BEGIN: Final = "<!-- figures: scripts/bench --write-docs -->"
END: Final = "<!-- end of figures -->"


def fill(page: Path = PAGE, results: Path = figures.RESULTS) -> None:
    """Replace what stands between the marks."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page}: expected the lines {BEGIN!r} and {END!r}")
    page.write_text(f"{before}{BEGIN}\n\n{render(results)}\n\n{END}{after}")


def render(results: Path = figures.RESULTS) -> str:
    """The table, and where it was measured."""
    found = [(find(name), result) for name in NAMES if (result := figures.last(name, results)) is not None]
    if not found:
        raise SystemExit(f"{results}: no results yet; run scripts/bench first")
    return "\n".join([*_table(found), "", _host([result for _, result in found])])


def _table(found: list[tuple[Bench, Result]]) -> Iterator[str]:
    yield "| bench | work | compared with | figures | ratio |"
    yield "|---|---|---|---|---|"
    for bench, result in found:
        *others, ratio = result.figures
        told = "; ".join(f"{figure.name} {figures.show(figure)}" for figure in others)
        yield f"| `{bench.name}` | {_work(bench, result)} | {bench.against} | {told} | {_strong(ratio)} |"


def _work(bench: Bench, result: Result) -> str:
    sizes = ", ".join(f"{name} {value:,}" for name, value in result.sizes.items())
    return f"{bench.work} ({sizes}; {result.rounds} rounds)"


def _strong(ratio: Figure) -> str:
    value, _, bar = figures.show(ratio).partition(" ")
    return f"**{value}** {bar}".strip()


def _host(results: list[Result]) -> str:
    host, days = results[-1].host, sorted({result.measured_at[:10] for result in results})
    loads = [result.host.load for result in results]
    return (
        f"Measured {' and '.join(days)} on {host.cpus} cores, {host.system}, Python {host.python}; "
        f"load average {min(loads):g} to {max(loads):g}."
    )
