"""The code of the page about Python tasks runs as it stands, in the order of the page."""

import contextlib
import io
from pathlib import Path

import pytest

from tests.kit.docs.pages import ROOT, fences

PAGE = ROOT / "docs/python-tasks.md"


@pytest.mark.bwrap
def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for fence in fences(PAGE.read_text("utf-8")):
        if fence.file is not None:
            Path(fence.file).write_text(fence.text)
        elif fence.language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(fence.text, f"block {ran} of {PAGE.name}", "exec"), {})
            ran += 1
    assert ran == 8


def test_every_name_of_the_table_exists() -> None:
    import importlib
    import re

    text = (ROOT / "docs/coming-from-inspect.md").read_text("utf-8")
    checked = 0
    for left, right in re.findall(r"^\| `inspect_ai\.\w+`: (.+?) \| (.+?) \|$", text, re.MULTILINE):
        for home in re.findall(r"`(labrunner\.\w+)`", right):
            module = importlib.import_module(home)
            for name in re.findall(r"`(\w+)`", left):
                assert hasattr(module, name), f"{home}.{name}"
                checked += 1
    assert checked > 50
