"""Who imports whom, at any altitude, and where that goes round in circles."""

from collections.abc import Mapping

from bench.house.reading import House, Module

Graph = Mapping[str, frozenset[str]]
"""What each imports."""


def module_graph(house: House) -> Graph:
    """Module by module."""
    return {name: module.imports for name, module in house.items()}


def room_graph(house: House) -> Graph:
    """Folder by folder: what stands in a sub-room is not counted for the room around it."""
    return _grouped(house, {name: module.room for name, module in house.items()})


def top_graph(house: House) -> Graph:
    """Room by room, each with all its sub-rooms; the public faces are one."""
    return _grouped(house, {name: top(module) for name, module in house.items()})


def top(module: Module) -> str:
    """The room that a module belongs to, whichever sub-room it stands in."""
    return module.room.partition(".")[0]


def _grouped(house: House, groups: Mapping[str, str]) -> Graph:
    edges: dict[str, set[str]] = {group: set() for group in groups.values()}
    for name, module in house.items():
        edges[groups[name]].update(groups[target] for target in module.imports)
    return {group: frozenset(targets - {group}) for group, targets in edges.items()}


def inside(house: House, container: str) -> Graph:
    """What stands side by side in a folder: its modules, and each sub-room as one."""
    edges: dict[str, set[str]] = {}
    for name, module in house.items():
        here = _child(container, name)
        if here is None:
            continue
        edges.setdefault(here, set()).update(
            there for target in module.imports if (there := _child(container, target)) not in (None, here)
        )
    return {name: frozenset(targets) for name, targets in edges.items()}


def _child(container: str, name: str) -> str | None:
    """The part of a folder that a module is or stands in; None for the folder itself and what is outside."""
    prefix = f"{container}." if container else ""
    if not name.startswith(prefix) or name == container:
        return None
    return prefix + name[len(prefix) :].partition(".")[0]


def containers(house: House) -> list[str]:
    """Every folder, the package itself first."""
    return sorted({module.room for module in house.values()})


def importers(graph: Graph) -> Graph:
    """The same edges, seen from the other end."""
    return {name: frozenset(who for who, targets in graph.items() if name in targets) for name in graph}


def find_cycles(graph: Graph) -> list[tuple[str, ...]]:
    """Groups in which each leads to each other, by way of any number of others."""
    reached = {name: _reach(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached.get(other, ())))
        for name in graph
        if name in reached[name]
    }
    return sorted(groups)


def _reach(graph: Graph, start: str) -> frozenset[str]:
    found: set[str] = set()
    ahead: list[str] = list(graph[start])
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += graph.get(name, ())
    return frozenset(found)
