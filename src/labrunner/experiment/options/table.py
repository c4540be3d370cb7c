"""The options of a run, each declared once, in the order in which `--help` tells them.

A row serves the command line, its variable `LAB_…`, `eval()` and its kin, what `run.json` keeps of it, what a
retry makes of it, and whether it may change when a run goes on. Settings of a model's requests are keywords,
too; those are declared by `GenerateConfig`.
"""

from typing import Final

from labrunner.experiment.options.command_options import CHOOSING_OPTIONS, RESULT_OPTIONS, TELLING_OPTIONS
from labrunner.experiment.options.experiment_options import EXPERIMENT_OPTIONS
from labrunner.experiment.options.option import Override, RunOption
from labrunner.experiment.options.python_options import PYTHON_OPTIONS
from labrunner.experiment.options.run_options import RUN_OPTIONS

OPTIONS: Final[tuple[RunOption, ...]] = (
    *CHOOSING_OPTIONS,
    *EXPERIMENT_OPTIONS,
    *RUN_OPTIONS,
    *RESULT_OPTIONS,
    *PYTHON_OPTIONS,
    *TELLING_OPTIONS,
)
_BY_NAME: Final = {option.name: option for option in OPTIONS}
OVERRIDES: Final[tuple[Override, ...]] = tuple(
    {option.override.name: option.override for option in OPTIONS if option.override is not None}.values()
)
"""What a run's record keeps of options."""


def find_option(name: str) -> RunOption:
    """The option with that name."""
    return _BY_NAME[name]


def flag(name: str) -> str:
    """How messages call an option: as the command line does, where it can be given there."""
    return _BY_NAME[name].label


def fill_in(word: str) -> str:
    """Give a flag whose value is optional one, so that it never swallows the word behind it."""
    for option in OPTIONS:
        if option.bare is not None and word == option.label:
            return f"{word}={option.bare}"
        if option.negated is not None and word == option.negative:
            return f"{option.label}={option.negated}"
    return word
