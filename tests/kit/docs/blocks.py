"""Parts of pages that programs write: `python -m tests.kit.docs.blocks` writes them anew.

A block stands between ``<!-- written by `python -m MODULE` -->`` and `<!-- end -->`; a page whose first
comment begins with ``Written by `python -m MODULE`;`` is one block. The module's `render()` gives the text.
"""

import importlib
import re
from pathlib import Path

from tests.kit.docs.pages import ROOT, pages

BLOCK = re.compile(r"(<!-- written by `python -m (\S+)` -->\n)(.*?)(<!-- end -->)", re.DOTALL)
WHOLE = re.compile(r"\A#.*\n\n<!-- Written by `python -m (\S+)`; ")


def render(module: str) -> str:
    text: str = importlib.import_module(module).render()
    return text


def renew(page: Path) -> str:
    """The page as it should be."""
    text = page.read_text("utf-8")
    if whole := WHOLE.match(text):
        return render(whole[1])
    return BLOCK.sub(lambda found: f"{found[1]}\n{render(found[2])}\n{found[4]}", text)


def main() -> None:
    for page in pages():
        text = renew(page)
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
