"""The pages' modules as one script, for a page that can load none.

Rule: only the few forms of import and export that the pages use are known; another one is an error here, at
once, and not one in somebody's browser.
"""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

FIRST: Final = "app.js"
_IMPORT: Final = re.compile(r'^import\s*(?:(\w+)|\{([^}]*)\})\s*from\s*"(\./[^"]+)";?', re.MULTILINE)
_LIST: Final = re.compile(r"\bexport\s*\{([^}]*)\};?")
_DEFAULT: Final = re.compile(r"\bexport default\b")
_DECLARED: Final = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_LEFT: Final = re.compile(r"^\s*(?:import|export)\b", re.MULTILINE)
_UNFIT: Final = re.compile(r"</script|<!--|<script", re.IGNORECASE)


def join_scripts(pages: Mapping[str, bytes]) -> str:
    """One script that does what the first module does with all that it imports."""
    written: dict[str, str] = {}
    _write(pages, FIRST, written)
    script = "\n".join(['"use strict";', "(() => {", "const M = {};", *written.values(), "})();"])
    if (unfit := _UNFIT.search(script)) is not None:
        raise ValueError(f"the pages' scripts hold {unfit[0]!r}, which would end the element around them")
    return script


def _write(pages: Mapping[str, bytes], name: str, written: dict[str, str]) -> None:
    """Write a module behind those that it imports."""
    if name in written:
        return
    text = pages[name].decode()
    folder = PurePosixPath(name).parent
    for found in _IMPORT.finditer(text):
        _write(pages, str(folder / found[3]), written)
    written[name] = _wrap(name, text, folder)


def _wrap(name: str, text: str, folder: PurePosixPath) -> str:
    def take(found: re.Match[str]) -> str:
        source = f"M[{str(folder / found[3])!r}]"
        return (
            f"const {found[1]} = {source}.default;"
            if found[1]
            else f"const {{{_pair(found[2])}}} = {source};"
        )

    def give(found: re.Match[str]) -> str:
        pairs = [each.split(" as ") for each in _names(found[1])]
        return f"Object.assign(E, {{{', '.join(f'{pair[-1]}: {pair[0]}' for pair in pairs)}}});"

    body = _DEFAULT.sub("E.default =", _LIST.sub(give, _IMPORT.sub(take, text)))
    declared = "".join(f"E.{found[2]} = {found[2]};\n" for found in _DECLARED.finditer(body))
    body = _DECLARED.sub(r"\1", body)
    if (left := _LEFT.search(body)) is not None:
        raise ValueError(f"{name}: {body[left.start() : left.start() + 60]!r} can't be put into one script")
    return f"M[{name!r}] = ((E) => {{\n{body}\n{declared}return E;\n}})({{}});"


def _pair(names: str) -> str:
    return ", ".join(each.replace(" as ", ": ") for each in _names(names))


def _names(text: str) -> list[str]:
    return [" ".join(each.split()) for each in text.split(",") if each.strip()]
