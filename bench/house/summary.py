"""The summary of the house that CONTRIBUTING.md holds; `scripts/docs` writes it there.

Lines are told in steps, so that the page changes when a room does, not with every edit.
"""

from collections.abc import Iterator
from typing import Final

from bench.house import rules
from bench.house.account import count_lines
from bench.house.graph import importers, top, top_graph
from bench.house.reading import House, read_house

STEP: Final = 500


def render() -> str:
    """The table, and a sentence on what is worth a second look."""
    return summarize(read_house())


def summarize(house: House) -> str:
    """The same, of a house that was read."""
    return "\n".join([*_table(house), "", _sentence(house), ""])


def _table(house: House) -> Iterator[str]:
    graph = top_graph(house)
    back = importers(graph)
    yield "| room | modules | lines, about | sub-rooms | imports | imported by |"
    yield "|---|---|---|---|---|---|"
    for room in sorted(graph):
        here = [module for module in house.values() if top(module) == room]
        modules = sum(not module.is_package for module in here)
        subs = sum(module.is_package and module.name != room for module in here)
        yield (
            f"| `{room or 'labrunner'}` | {modules} | {_about(count_lines(here))} | {subs or ''} "
            f"| {_rooms(len(graph[room]))} | {_rooms(len(back[room]))} |"
        )


def _rooms(count: int) -> str:
    return f"{count} rooms" if count > 1 else f"{count} room" if count else ""


def _about(lines: int) -> str:
    return f"{round(lines / STEP) * STEP:,}" if lines >= STEP else f"under {STEP}"


def _sentence(house: House) -> str:
    ours = [module for module in house.values() if not module.is_package]
    return (
        f"{len(ours)} modules; {len(rules.long_modules(house))} of them over {rules.MANY_LINES} lines, "
        f"{len(rules.long_functions(house))} functions over {rules.LONG_FUNCTION}. "
        f"Circles of imports: {len(rules.room_cycles(house)) or 'none'} of rooms, "
        f"{len(rules.module_cycles(house)) or 'none'} of modules."
    )
