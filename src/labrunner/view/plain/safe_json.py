"""Plain JSON whose texts hide nothing and turn nothing around: what every answer passes through."""

from labrunner.display.text.safetext import sanitise


def make_safe(value: object) -> object:
    """The same JSON, its texts made safe."""
    match value:
        case str():
            return sanitise(value)
        case dict():
            return {sanitise(str(key)): make_safe(each) for key, each in value.items()}
        case list() | tuple():
            return [make_safe(each) for each in value]
        case _:
            return value
