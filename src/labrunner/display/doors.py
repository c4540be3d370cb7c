"""What `lab doctor` prints of the doors: each with its names, and where they come from."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType

from labrunner.display.text.console import make_line, make_table, stack


def show_doors(known: Sequence[Mapping[str, str]], doors: Sequence[str]) -> RenderableType:
    """Show one line for each door and package; below, what can't be used and why."""
    groups: dict[str, dict[str, list[str]]] = {door: {} for door in doors}
    for each in known:
        groups[each["door"]].setdefault(each["origin"], []).append(each["name"])
    rows = [
        (door, origin, ", ".join(names))
        for door, origins in groups.items()
        for origin, names in (origins or {"": ["none"]}).items()
    ]
    broken = [
        make_line(f"{each['door']} {each['name']} of {each['origin']}: {each['problem']}", "yellow")
        for each in known
        if each["problem"]
    ]
    return stack(make_line(""), make_table(("door", "from", "known"), rows), *broken)
