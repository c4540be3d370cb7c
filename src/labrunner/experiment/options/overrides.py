"""What options change about an experiment, as a run's record keeps it; made from the table of options.

What is None or empty leaves the file's. Types for checkers and editors are in the stub beside this file,
which `python -m tests.kit.experiment.stubs` writes.
"""

from dataclasses import field, make_dataclass
from typing import Any, get_origin

from labrunner.experiment.options.option import Override
from labrunner.experiment.options.table import OVERRIDES


def _field(override: Override) -> tuple[str, Any, Any]:
    if override.layering == "name by name":
        return override.name, override.type, field(default_factory=dict)
    is_many = get_origin(override.type) is tuple
    return override.name, override.type, field(default=() if is_many else None)


Overrides = make_dataclass(
    "Overrides",
    [_field(each) for each in OVERRIDES],
    namespace={"__module__": __name__, "__doc__": "Options that change an experiment, by name."},
    frozen=True,
    slots=True,
    kw_only=True,
)
