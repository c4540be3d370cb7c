"""What pages are to people who do not see them as their author does: axe-core finds nothing serious."""

import asyncio
import json
from pathlib import Path

import pytest

from labrunner.interop.registry import export_run
from labrunner.view.web.webserver import serving
from tests.kit.browser import Page, page_of
from tests.kit.made_runs import Told, make_grid, write_run
from tests.kit.view.left_behind import FAILED, TRIAL, write_left

AXE = Path(__file__).parents[1] / "kit/view/vendor/axe.min.js"
ASK = """(async () => { const told = await axe.run(document, {resultTypes: ["violations"]});
    return told.violations.filter((each) => ["serious", "critical"].includes(each.impact))
        .map((each) => [each.id, each.nodes.map((node) => `${node.target}: ${node.failureSummary}`)]); })()"""
HAS = "document.body.innerText.includes"
READY = "document.querySelectorAll('.tr').length > 3 && !!document.querySelector('canvas') && !!document.querySelector('.finding')"  # noqa: E501 - one question
PAGES = {
    "/": f"{HAS}('3 runs')",
    "/run/left?said=look": f"{READY} && !!document.querySelector('.hits mark')",
    "/run/dead": READY,
    "/run/bad": f"{HAS}('be read as they are')",
    f"/run/left/trial/{TRIAL}?tab=conversation": f"{HAS}('onerror=')",
    f"/run/left/trial/{TRIAL}?tab=terminal": f"{HAS}('onerror=')",
    f"/run/left/trial/{TRIAL}?tab=files": f"{HAS}('transcript.jsonl') && {HAS}('onerror')",
    f"/run/left/trial/{TRIAL}?tab=grader": f"{HAS}('judged by')",
    f"/run/left/trial/{TRIAL}?tab=record": f"{HAS}('slot_commit_id')",
    f"/run/left/trial/{FAILED}": f"{HAS}('attempt 2')",
    "/compare?a=left&flip=t4": "document.querySelectorAll('.sides .scrolling').length == 2",
    "/query?run=left": "!!document.querySelector('.answer td')",
}


async def find_faults(page: Page, url: str, until: str) -> list[object]:
    await page.open("about:blank")
    await page.open(url)
    await page.wait_for(until)
    await page.run(AXE.read_text())
    found: list[object] = await page.run(ASK)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_page_has_a_serious_fault_in_either_theme(tmp_path: Path, scheme: str) -> None:
    runs = tmp_path / "runs"
    paths = write_left(runs)
    bad = write_left(runs, "bad")
    bad.trials.write_bytes(bad.trials.read_bytes().replace(b'"ids":', b'"1ds":', 1))
    write_run(runs, make_grid(name="half"), lambda s: Told() if s.schedule_idx < 5 else None,
              run_id="dead", status="started")  # fmt: skip
    (file,) = export_run(paths, "html", tmp_path / "run.html")
    async with asyncio.timeout(110), serving(runs) as place, page_of(tmp_path) as page:
        await page.prefer(scheme)
        base = f"http://127.0.0.1:{place.port}"
        found = {path: await find_faults(page, base + path, until) for path, until in PAGES.items()}
        found["file"] = await find_faults(page, file.as_uri(), READY)
    faults = {path: each for path, each in found.items() if each}
    assert faults == {}, json.dumps(faults, indent=1)
