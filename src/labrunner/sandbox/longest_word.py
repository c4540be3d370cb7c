"""The longest word that Linux hands to a program: of a command, or a variable with its name."""

from labrunner.files.host import LONGEST_WORD
from labrunner.sandbox.door import Phase


def find_long_word(*phases: Phase | None) -> str | None:
    """Say which phase could not be started, whatever sandbox it is in; None when all can be."""
    for phase in filter(None, phases):
        words = (*phase.argv, *(f"{name}={value}" for name, value in phase.env.items()))
        longest = max(len(word.encode(errors="surrogateescape")) for word in words)
        if longest > LONGEST_WORD:
            told = f"the {phase.name} has a word or a variable of {longest} bytes"
            return f"{told}, and Linux takes {LONGEST_WORD}; put large things into files"
    return None
