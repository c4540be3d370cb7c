"""Arguments with `$name` in them as words of a POSIX shell, so that some are known only inside. Pure.

Rules: what is known is quoted, whatever it holds; a name that only the sandbox knows becomes a variable of
the shell. A built-in name is one, too: its value comes as a word of its own, because the second stage of
`labrunner.experiment.substitution` would put it between quotes, whatever it holds. A dollar sign stays `$$`
for that stage.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from labrunner.experiment.substitution import BUILT_INS, UnknownName, escape, split


@dataclass(frozen=True, slots=True, kw_only=True)
class WordNames:
    """What may be named in an agent's file."""

    known: Mapping[str, str]
    """Names with their plain text."""
    inside: Mapping[str, str] = field(default_factory=dict)
    """Names with what the shell inside puts in their place, such as `$HOME`."""

    def having(self, **more: str) -> "WordNames":
        """The same with more names that are known."""
        return WordNames(known={**self.known, **more}, inside=self.inside)


def quote(text: str) -> str:
    """Quote a text for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def write_word(text: str, names: WordNames) -> str:
    """One word. Raises UnknownName."""
    pieces: list[str] = []
    plain = ""
    for literal, name in split(text):
        plain += escape(literal)
        if name is None:
            continue
        if name in names.known:
            plain += escape(names.known[name])
        elif name in names.inside:
            pieces += [quote(plain)] if plain else []
            pieces.append(f'"{escape(names.inside[name])}"')
            plain = ""
        else:
            known = ", ".join(f"${each}" for each in sorted({*names.known, *names.inside, *BUILT_INS}))
            raise UnknownName(f"unknown name '${name}'; known here: {known}; write $$ for a dollar sign")
    return "".join([*pieces, quote(plain)] if plain or not pieces else pieces)


def write_words(texts: Iterable[str], names: WordNames) -> list[str]:
    """Several words. Raises UnknownName."""
    return [write_word(text, names) for text in texts]
