"""Types of options for checkers and editors: `python -m tests.kit.experiment.stubs` writes them anew."""

import re
from collections.abc import Iterator
from pathlib import Path

import labrunner
from labrunner.experiment.options.option import FUNCTIONS, RunOption
from labrunner.experiment.options.table import OPTIONS, OVERRIDES
from labrunner.solve.values.config import SETTINGS

ROOT = Path(labrunner.__file__).parent
WRITTEN = "Written by `python -m tests.kit.experiment.stubs`; edit the table of options, not this file."


def render_overrides() -> str:
    names = [f"    {each.name}: {_plain(each.type)} = ..." for each in OVERRIDES]
    return "\n".join(
        [
            f'"""{WRITTEN}"""',
            "",
            "from collections.abc import Mapping",
            "from dataclasses import dataclass",
            "from typing import Any",
            "",
            "@dataclass(frozen=True, slots=True, kw_only=True)",
            "class Overrides:",
            '    """What options change about an experiment."""',
            "",
            *names,
            "",
        ]
    )


def render_keywords() -> str:
    eval_, eval_retry, eval_set = FUNCTIONS
    return "\n".join(
        [
            f'"""{WRITTEN}"""',
            "",
            "from collections.abc import Mapping, Sequence",
            "from pathlib import Path",
            "from typing import Any, Literal, TypedDict",
            "",
            "from labrunner.solve.scoring.metrics import Epochs",
            "",
            "class EvalSetOptions(TypedDict, total=False):",
            '    """Options of a run. What is left out is the task\'s own, or the default."""',
            "",
            *_lines([each for each in OPTIONS if eval_set in each.functions]),
            *(f"    {name}: {kind.annotation}" for name, kind in SETTINGS.items()),
            "",
            "class EvalOptions(EvalSetOptions, total=False):",
            '    """Options of a run, with where it is kept."""',
            "",
            *_lines([each for each in OPTIONS if each.functions == (eval_, eval_retry)]),
            "",
            "class NewEvalOptions(EvalOptions, total=False):",
            '    """Options of a run that is no retry."""',
            "",
            *_lines([each for each in OPTIONS if each.functions == (eval_,)]),
            "",
        ]
    )


def _lines(options: list[RunOption]) -> Iterator[str]:
    for option in options:
        yield f"    {option.name}: {option.annotation or (option.kind.annotation if option.kind else 'Any')}"
        if option.about:
            yield f'    """{option.about}"""'


def _plain(kind: object) -> str:
    told = kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)
    return re.sub(r"(?:typing|collections\.abc)\.", "", told)


STUBS = {
    ROOT / "experiment" / "options" / "overrides.pyi": render_overrides,
    ROOT / "evaluation" / "keywords.pyi": render_keywords,
}

if __name__ == "__main__":
    for path, render in STUBS.items():
        path.write_text(render(), "utf-8")
