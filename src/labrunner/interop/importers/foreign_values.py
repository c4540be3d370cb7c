"""Values of foreign files, field by field: each is read as its format says, or refused by file and field.

Rules: nothing is raised, dropped or guessed. Whoever takes a value names the field; what is wrong is noted,
so that all of it is told in one go, and a harmless value stands in for it.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from labrunner.errors import InputError
from labrunner.experiment.authoring.problems import found
from labrunner.experiment.authoring.values import BadValue, check_env_name

_TEMPLATE: Final = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """What can't be had of one file, by its fields."""

    file: Path
    noted: list[InputError] = field(default_factory=list)

    def add(self, name: str, problem: str) -> None:
        """Note a field, or with an empty name the file, that can't be had."""
        refusal = InputError(f"{self.file}: {name}" if name else str(self.file), problem)
        if str(refusal) not in map(str, self.noted):  # a field may be asked for more than once
            self.noted.append(refusal)

    def of(self, file: Path) -> "Refusals":
        """The same list, for another file."""
        return Refusals(file=file, noted=self.noted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A map of a foreign file: what its fields hold, and where it stands."""

    values: Mapping[str, Any]  # foreign, not checked yet
    refusals: Refusals
    name: str = ""

    def at(self, key: str) -> str:
        """The full name of a field."""
        return f"{self.name}.{key}" if self.name else key

    def has(self, key: str) -> bool:
        """Whether a field says something."""
        return self.values.get(key) is not None

    def refuse(self, key: str, problem: str) -> None:
        """Say that a field can't be had."""
        self.refusals.add(self.at(key), problem)

    def below(self, key: str) -> "ForeignTable":
        """A map in this one; an empty one where there is none."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            self.refuse(key, f"must be a table, found {found(value)}")
            value = None
        return ForeignTable(values=value or {}, refusals=self.refusals, name=self.at(key))

    def text(self, key: str) -> str | None:
        """A text that is not empty."""
        value = self.values.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        self.refuse(key, f"must be text, found {found(value)}")
        return None

    def seconds(self, key: str) -> float | None:
        """A time in seconds."""
        value = self._number(key)
        if value is not None and value <= 0:
            self.refuse(key, f"must be more than 0 seconds, found {value:g}")
            return None
        return value

    def amount(self, key: str) -> float | None:
        """A number above 0 that may have a fraction."""
        return self.seconds(key)

    def count(self, key: str) -> int | None:
        """A whole number from 1 on."""
        value = self._number(key)
        if value is not None and (value < 1 or value != int(value)):
            self.refuse(key, f"must be a whole number from 1 on, found {value:g}")
            return None
        return None if value is None else int(value)

    def user(self, key: str) -> str | None:
        """A user by name or number."""
        value = self.values.get(key)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else self.text(key)

    def texts(self, key: str) -> list[str]:
        """A list of texts."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.refuse(key, f"must be a list of texts, found {found(value)}")
            return []
        return value

    def variables(self, key: str) -> Iterator[tuple[str, str]]:
        """Variables with their texts; names that `lab` sets itself are refused."""
        for name, value in self.below(key).values.items():
            where = f"{key}.{name}"
            try:
                check_env_name(name)
            except BadValue as error:
                self.refuse(where, str(error))
                continue
            if isinstance(value, str):
                yield name, value
            else:
                self.refuse(where, f"must be text, found {found(value)}")

    def _number(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.refuse(key, f"must be a number, found {found(value)}")
            return None
        return float(value)


def take_variables(table: ForeignTable, key: str, secrets: list[str]) -> dict[str, str]:
    """Variables as an experiment writes them; one that comes from the same one here becomes a secret."""
    env = {}
    for name, value in table.variables(key):
        template = _TEMPLATE.fullmatch(value)
        if template is None and _TEMPLATE.search(value) is None:
            env[name] = escape(value)
        elif template is not None and template[1] == name:
            secrets.append(name)
        else:
            told = f"{value!r} takes a value from this machine under another name or with a default"
            table.refuse(f"{key}.{name}", f"{told}; write the value, or ${{{name}}}")
    return env


def escape(text: str) -> str:
    """A text in which `$` means nothing, as experiments write it."""
    return text.replace("$", "$$")


def refuse_unknown(table: ForeignTable, known: Sequence[str], what: str) -> None:
    """Refuse fields that a format does not have: whoever wrote one meant something by it."""
    for key in table.values:
        if key not in known:
            table.refuse(str(key), f"there is no such field in {what}, so nothing can be made of it")


def number(value: float) -> str:
    """A number as a shell command takes it."""
    return f"{value:g}"
