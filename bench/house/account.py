"""What `scripts/house` prints: rooms with their sizes and ties, then what is worth a second look."""

from collections.abc import Iterable, Iterator

from bench.house import rules
from bench.house.graph import Graph, importers, room_graph
from bench.house.reading import House, Module


def tell(house: House) -> Iterator[str]:
    """Everything, line by line."""
    yield from _rooms(house)
    yield from _ties(house)
    yield from _list("circles of rooms", map(_arrow, rules.room_cycles(house)))
    yield from _list("circles of modules", map(_arrow, rules.module_cycles(house)))
    yield from _list("module names that stand twice", _module_names(house))
    yield from _list("class names that stand twice", _class_names(house))
    yield from _list(f"modules over {rules.MANY_LINES} lines", _sized(rules.long_modules(house)))
    yield from _list(f"functions over {rules.LONG_FUNCTION} lines", _sized(rules.long_functions(house)))
    yield from _list("rules that are broken", rules.find_broken(house))


def _rooms(house: House) -> Iterator[str]:
    graph = room_graph(house)
    back = importers(graph)
    yield f"{'room':32}{'modules':>8}{'lines':>8}{'imports':>9}{'imported by':>13}"
    for room, names in rules.modules_by_room(house).items():
        lines = count_lines(house[name] for name in names)
        yield f"{_indent(room):32}{len(names):8}{lines:8,}{len(graph[room]):9}{len(back[room]):13}"
    yield f"{'':32}{sum(not m.is_package for m in house.values()):8}{count_lines(house.values()):8,}"


def _indent(room: str) -> str:
    return "  " * room.count(".") + (room.rpartition(".")[2] or "labrunner (public faces)")


def _ties(house: House) -> Iterator[str]:
    graph = room_graph(house)
    back = importers(graph)
    yield ""
    yield "who imports whom"
    for room in sorted(graph):
        yield f"  {room or 'labrunner'}"
        yield f"    imports      {_names(graph, room)}"
        yield f"    imported by  {_names(back, room)}"


def _names(graph: Graph, room: str) -> str:
    return ", ".join(sorted(name or "labrunner" for name in graph[room])) or "-"


def _list(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    yield ""
    yield f"{title}: {len(found) or 'none'}"
    yield from (f"  {line}" for line in found)


def _arrow(cycle: tuple[str, ...]) -> str:
    return " <-> ".join(cycle)


def _module_names(house: House) -> Iterator[str]:
    for stem, rooms in rules.same_module_names(house).items():
        told = ", ".join(sorted(room or "labrunner" for room in rooms))
        yield f"{stem}: {told}{_reason(stem)}"


def _reason(stem: str) -> str:
    if stem in rules.ONE_PER_ROOM:
        return " (one for each room)"
    return f" ({rules.SAME_NAME[stem][0]})" if stem in rules.SAME_NAME else ""


def _class_names(house: House) -> Iterator[str]:
    for name, modules in rules.same_class_names(house).items():
        yield f"{name}: {', '.join(modules)}"


def _sized(found: Iterable[tuple[str, int]]) -> Iterator[str]:
    return (f"{lines:5} {name}" for name, lines in found)


def count_lines(modules: Iterable[Module]) -> int:
    """Lines of these modules together."""
    return sum(module.lines for module in modules)
