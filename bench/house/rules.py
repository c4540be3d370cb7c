"""What the house promises: each rule gives a sentence for each place where it is broken."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from bench.house.graph import containers, find_cycles, inside, module_graph
from bench.house.reading import House

MOST_LINES: Final = 400
MANY_LINES: Final = 250
LONG_FUNCTION: Final = 40
MOST_MODULES: Final = 12

SAME_NAME: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "agents": ("the command, and what it shows", frozenset({"cli.keeping", "display"})),
    "breakdown": ("computed, and shown", frozenset({"analysis.comparing", "display.results"})),
    "compare": ("the command, and what it shows", frozenset({"cli.looking", "display.results"})),
    "dataset": ("the public face", frozenset({"", "solve.authoring"})),
    "doors": ("asked for, and shown", frozenset({"cli.carrying", "display"})),
    "lineage": ("summed up, and shown", frozenset({"analysis.sums", "display.trials"})),
    "log": ("the public face, and the command that speaks of the same logs", frozenset({"", "cli.looking"})),
    "plan": ("made, asked for, and shown", frozenset({"runner", "cli.carrying", "display"})),
    "power": ("computed, and shown", frozenset({"analysis.comparing", "display.results"})),
    "report": ("computed, and shown", frozenset({"analysis", "display.results"})),
    "retry": ("decided, and asked for on the command line", frozenset({"policy", "cli.carrying"})),
    "run": ("the record, and the command that makes one", frozenset({"records", "cli.carrying"})),
    "scorer": ("the public face", frozenset({"", "solve.authoring"})),
    "show": ("the command, and what it shows", frozenset({"cli.looking", "display.results"})),
    "sitting": ("the machine, and what is shown of it", frozenset({"runner.sitting", "display"})),
    "solver": ("the public face", frozenset({"", "solve.authoring"})),
    "summary": ("the record, and how it is computed", frozenset({"records", "analysis"})),
    "tables": ("the public face", frozenset({"", "query"})),
    "tool": ("the public face", frozenset({"", "solve.values"})),
}
"""Names that stand in two rooms for one idea at two altitudes, with what each is."""
ONE_PER_ROOM: Final = frozenset({"door", "kind", "registry"})
"""Every room that others can add to has one of these; the room says of what."""


def find_broken(house: House) -> list[str]:
    """Every rule that is broken, in words."""
    return [*_cycles(house), *_module_names(house), *_class_names(house), *_crowds(house), *_sizes(house)]


def _cycles(house: House) -> Iterator[str]:
    for cycle in room_cycles(house):
        yield f"rooms import each other in a circle: {', '.join(cycle)}"


def _module_names(house: House) -> Iterator[str]:
    for stem, rooms in same_module_names(house).items():
        allowed = SAME_NAME[stem][1] if stem in SAME_NAME else frozenset()
        if stem not in ONE_PER_ROOM and not rooms <= allowed:
            told = ", ".join(sorted(room or "labrunner" for room in rooms))
            yield f"modules of one name: {stem}, in {told}; rename one, or give the reason in {__name__}"
    for stem, (_, rooms) in SAME_NAME.items():
        if not rooms <= same_module_names(house).get(stem, frozenset()):
            yield f"allowed for nothing: {stem} does not stand in all rooms that {__name__} names"


def _class_names(house: House) -> Iterator[str]:
    for name, modules in same_class_names(house).items():
        yield f"classes of one name: {name}, in {', '.join(modules)}"


def _crowds(house: House) -> Iterator[str]:
    for room, names in modules_by_room(house).items():
        if len(names) > MOST_MODULES:
            yield f"a crowded room: {room or 'labrunner'} has {len(names)} modules, at most {MOST_MODULES}"


def _sizes(house: House) -> Iterator[str]:
    for name, module in house.items():
        if module.lines > MOST_LINES:
            yield f"a module too long: {name} has {module.lines} lines, at most {MOST_LINES}"


def same_module_names(house: House) -> dict[str, frozenset[str]]:
    """Names that modules of several rooms have, with the rooms."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for module in house.values():
        if not module.is_package:
            rooms[module.stem].add(module.room)
    return {stem: frozenset(found) for stem, found in sorted(rooms.items()) if len(found) > 1}


def same_class_names(house: House) -> dict[str, list[str]]:
    """Names that classes of several modules have, with the modules."""
    modules: dict[str, set[str]] = defaultdict(set)
    for name, module in house.items():
        for each in module.classes:
            modules[each].add(name)
    return {name: sorted(found) for name, found in sorted(modules.items()) if len(found) > 1}


def modules_by_room(house: House) -> dict[str, list[str]]:
    """Modules that stand directly in each folder. A folder's own `__init__` is not one of them."""
    found: dict[str, list[str]] = {room: [] for room in containers(house)}
    for name, module in house.items():
        if not module.is_package:
            found[module.room].append(name)
    return found


def room_cycles(house: House) -> list[tuple[str, ...]]:
    """Rooms and sub-rooms that lead to themselves, seen among all that stands beside them."""
    return [
        cycle
        for container in containers(house)
        for cycle in find_cycles(inside(house, container))
        if any(house[name].is_package for name in cycle)
    ]


def module_cycles(house: House) -> list[tuple[str, ...]]:
    """Modules that lead to themselves, whichever rooms they stand in."""
    return find_cycles(module_graph(house))


def long_modules(house: House) -> list[tuple[str, int]]:
    """Modules to look at again, longest first."""
    return _longest((name, module.lines) for name, module in house.items() if module.lines > MANY_LINES)


def long_functions(house: House) -> list[tuple[str, int]]:
    """Functions to look at again, longest first."""
    return _longest(
        (f"{name}.{function.name}", function.lines)
        for name, module in house.items()
        for function in module.functions
        if function.lines > LONG_FUNCTION
    )


def _longest(found: Iterator[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(found, key=lambda each: (-each[1], each[0]))
