"""What `lab doctor` prints of the doors: each with its names, and where they come from."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType

from labrunner.display.text.console import make_line, make_table, stack


def show_doors(known: Sequence[Mapping[str, str]]) -> RenderableType:
    """Show one line for each door and package; below, what can't be used and why."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in known:
        groups.setdefault((each["door"], each["origin"]), []).append(each["name"])
    rows = [(door, origin, ", ".join(names)) for (door, origin), names in groups.items()]
    broken = [
        make_line(f"{each['door']} {each['name']} of {each['origin']}: {each['problem']}", "yellow")
        for each in known
        if each["problem"]
    ]
    return stack(make_line(""), make_table(("door", "from", "known"), rows), *broken)
