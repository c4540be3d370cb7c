"""Files of a Python task that hold secrets: on other machines they would lie in clear, so they stay here.

Searched are values of declared secrets, and of variables whose names say what they are, in all spellings of
`files/strangers/masking`. Shorter ones than are masked are not found.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from labrunner.errors import InputError
from labrunner.experiment.resolved import Experiment
from labrunner.files.strangers.masking import make_masker

_NAMED_SO: Final = re.compile(r"(.+_)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)", re.IGNORECASE)
_CHUNK: Final = 1 << 20


def choose_secrets(experiment: Experiment, known: Mapping[str, str]) -> dict[str, str]:
    """What is known that nobody else may read, by name."""
    return {
        name: value
        for name, value in known.items()
        if name in experiment.secrets or _NAMED_SO.fullmatch(name)
    }


def refuse_secrets(files: Iterable[Path], secrets: Mapping[str, str]) -> None:
    """Raise InputError for the first file that holds one."""
    spellings = {
        needle: name for name, value in secrets.items() for needle, _ in make_masker({name: value}).needles
    }
    for path in files:
        try:
            name = next(_search(path, spellings), None)
        except OSError as error:
            raise InputError(str(path), f"can't be read any more: {error.strerror}") from error
        if name is not None:
            told = (
                f"holds the value of {name}, and would lie on the nodes of the cluster in clear; take it out"
            )
            told += " of the file, and have the task read it from its environment"
            raise InputError(str(path), told)


def _search(path: Path, spellings: Mapping[bytes, str]) -> Iterator[str]:
    """Names of what a file holds, also across two reads."""
    kept, tail = max(map(len, spellings), default=1) - 1, b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            data = tail + chunk
            yield from (name for needle, name in spellings.items() if needle in data)
            tail = data[-kept:] if kept else b""
