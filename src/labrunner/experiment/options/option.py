"""What an option of a run is: a row of `table.py`, from which everything that knows options is derived.

Rules: pure data, and light to load: the command line asks it before it knows which command is meant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from labrunner.experiment.options.kinds import Kind
from labrunner.experiment.options.spelling import as_given

CARRYING: Final = ("run", "plan", "doctor", "retry", "set")
"""Commands with one command line: what is not an option of one of them is hidden there, and refused."""
CONTINUED: Final = (*CARRYING, "continue")
"""Of what is policy, or says how a run is carried out: it may be decided anew when a run goes on."""
REGRADED: Final = (*CARRYING, "regrade")
EVERY: Final = (*CONTINUED, "regrade")
FUNCTIONS: Final = ("eval", "eval_retry", "eval_set")


@dataclass(frozen=True, slots=True)
class Override:
    """A field of `Overrides`, which a run's record keeps."""

    name: str
    type: Any
    """As it is recorded; that of a single value may be None."""
    layering: Literal["newest", "name by name", "one after another"] = "newest"
    """How that of a retry goes over that of the run that is retried."""


@dataclass(frozen=True, slots=True)
class Laid:
    """It is laid over a field of the experiment's file, and decoded by the rules of files."""

    override: Override
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """It is one name of a map that is overridden."""

    override: Override
    key: str


@dataclass(frozen=True, slots=True)
class ReadByName:
    """It is read by its name where it is obeyed."""

    override: Override


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """It is a field of the policy that no file has."""

    override: Override
    field: str


@dataclass(frozen=True, slots=True)
class OfRun:
    """It says how a run is carried out here: a field of `RunOptions`; not recorded among overrides."""

    field: str


@dataclass(frozen=True, slots=True)
class OfCommand:
    """It is for the command or function alone."""

    field: str


Goal: TypeAlias = Laid | Entry | ReadByName | PolicyPart | OfRun | OfCommand
Reader: TypeAlias = Callable[[Any, str], Any]
"""Makes of a value, and of the option's name for messages, what its goal takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOption:
    """One option."""

    name: str
    """The keyword in Python."""
    goal: Goal

    flags: tuple[str, ...] = ()
    """On the command line; without any it is for Python alone."""
    help: str = ""
    commands: tuple[str, ...] = CARRYING
    going_on: str = ""
    """The help of `lab continue`, where it is not the same: what is decided anew when a run goes on."""
    word: Any = str
    """What the command line takes; a list where it may be repeated."""
    least: float | None = None
    metavar: str | None = None
    bare: str | None = None
    """What the flag alone stands for; then it takes a value only with `=`."""
    negated: str | None = None
    """What its `--no-` form stands for."""
    variable_name: str | None = None
    read: Reader = as_given

    functions: tuple[str, ...] = FUNCTIONS
    kind: Kind | None = None
    """What a keyword's value must be; None where it is checked where it is used."""
    annotation: str = ""
    """The same for type checkers, where the kind does not say it."""
    about: str = ""
    """What a keyword does, where its name does not say it."""
    take: Reader = as_given
    is_for_python_tasks: bool = False

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.flags[0] if self.flags else self.name

    @property
    def variable(self) -> str:
        """The variable that sets it."""
        return self.variable_name or f"LAB_{self.label.removeprefix('--').replace('-', '_').upper()}"

    @property
    def negative(self) -> str:
        """Its `--no-` form."""
        return self.label.replace("--", "--no-", 1)

    @property
    def override(self) -> Override | None:
        """The field of `Overrides` that it goes into."""
        return None if isinstance(self.goal, OfRun | OfCommand) else self.goal.override

    def spell(self, value: str) -> str:
        """The option with a value, as people write it."""
        return f"{self.label}={value}" if self.bare is not None else f"{self.label} {value}"
