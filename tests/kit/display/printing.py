"""What a file or a pipe gets of something that is shown, whatever the environment says about colours."""

import io
from typing import TextIO, cast

from rich.console import Console, RenderableType

from labrunner.display.text.console import Trimmed


def to_text(renderable: RenderableType, width: int = 80) -> str:
    file = io.StringIO()
    trimmed = cast("TextIO", Trimmed(file))  # rich asks for no more than this has
    console = Console(
        file=trimmed, width=width, markup=False, emoji=False, highlight=False, color_system=None
    )
    console.print(renderable)
    return file.getvalue()
