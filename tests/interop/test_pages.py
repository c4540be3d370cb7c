"""What people see: exported pages in a real browser, and exported logs in the other package's own viewer."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from labrunner.experiment.schedule import Slot
from labrunner.interop.registry import export
from labrunner.runner.reports.lookup import RunInFull, read_in_full
from tests.kit.browser import Page, page_of
from tests.kit.builders import make_experiment, make_task, make_variant
from tests.kit.interop.exported import HOSTILE, TASKS, make_picture
from tests.kit.made_runs import Told, make_grid, write_run

COLUMN = """(name) => {
  const heads = [...document.querySelectorAll("#trials th")].map((th) => th.textContent);
  const rows = [...document.querySelectorAll("#trials tbody tr")];
  return rows.map((tr) => tr.cells[heads.indexOf(name)].textContent);
}"""
HEAD = """(name) => [...document.querySelectorAll("#trials th")].find((th) => th.textContent === name)"""
FILTER = """(words) => {
  const input = document.getElementById("filter");
  input.value = words;
  input.dispatchEvent(new Event("input"));
  return document.getElementById("note").textContent;
}"""


@asynccontextmanager
async def exported_page(seen: RunInFull, folder: Path) -> AsyncIterator[Page]:
    (file,) = export(seen, "html", folder / "page.html")
    async with asyncio.timeout(90), page_of(folder) as page:
        yield await page.open(file.as_uri())


async def test_the_page_sorts_filters_and_shows_hostile_text_as_text(tmp_path: Path) -> None:
    async with exported_page(make_picture(tmp_path / "runs"), tmp_path) as page:
        tasks = await page.run(f"({COLUMN})('task')")
        await page.run(f"({HEAD})('task').click()")
        ascending = await page.run(f"({COLUMN})('task')")
        await page.run(f"({HEAD})('task').click()")
        descending = await page.run(f"({COLUMN})('task')")
        reasons = await page.run(f"({COLUMN})('reason')")
        found = await page.run(f"({FILTER})('ERROR base')")
        markup = await page.run("document.querySelectorAll('b, img, iframe, a').length")
        hidden = await page.run(
            "[...document.querySelectorAll('#trials th')].filter((th) => th.hidden).length"
        )
    assert sorted(set(tasks)) == sorted(TASKS)
    assert ascending == sorted(tasks, key=str.lower)
    assert descending == ascending[::-1]
    assert f"leaked {HOSTILE}" in reasons
    assert found == "1 of 12 trials"
    assert (markup, hidden) == (0, 1)
    assert page.troubles == []
    assert [url for url in page.requests if not url.startswith("file:")] == []


async def test_a_page_of_ten_thousand_trials_shows_the_first_and_sorts_all(tmp_path: Path) -> None:
    def script(slot: Slot) -> Told:
        return Told(value=float(slot.schedule_idx % 3 == 0), usage={"tokens": 20_000 - slot.schedule_idx})

    grid = make_grid(tasks=1_000, variants=("base", "new"), replications=5)
    seen = read_in_full(write_run(tmp_path / "runs", grid, script))
    async with exported_page(seen, tmp_path) as page:
        note = await page.run("document.getElementById('note').textContent")
        await page.run(f"({HEAD})('tokens').click()")
        tokens = await page.run(f"({COLUMN})('tokens')")
        is_wide = await page.run("document.documentElement.scrollWidth > innerWidth")
    assert note == "10,000 of 10,000 trials, the first 200 shown"
    assert tokens == [str(number) for number in range(10_001, 10_201)]
    assert not is_wide
    assert page.troubles == []


CLIPPED = """[...document.querySelectorAll(".wide")].filter((box) => box.scrollWidth > box.clientWidth)
    .map((box) => box.textContent.slice(0, 60) + " " + box.scrollWidth + " > " + box.clientWidth)"""
LONG = "a-task-of-a-benchmark__with-a-very-long-name-12345"


@pytest.mark.parametrize("width", [1280, 420])
async def test_no_table_is_clipped_on_a_screen_or_a_phone(tmp_path: Path, width: int) -> None:
    tasks = tuple(make_task(f"{LONG}-{number}") for number in range(4))
    variants = tuple(make_variant(f"model=some-large-model,effort={name}") for name in ("low", "high"))
    experiment = make_experiment(tasks=tasks, variants=variants, replications=2)

    def script(slot: Slot) -> Told:
        return Told(value=float(slot.task_idx % 2), usage={"tokens": 1000, "cost_usd": 0.25})

    seen = read_in_full(write_run(tmp_path / "runs", experiment, script))
    async with exported_page(seen, tmp_path) as page:
        await page.resize(width, 1000)
        clipped = await page.run(CLIPPED)
        is_wide = await page.run("document.documentElement.scrollWidth > innerWidth")
        shown = await page.run("document.body.innerText")
    assert clipped == []
    assert not is_wide
    assert f"{LONG}-3" in shown
    for word in ("begun", "command", "made by", "labrunner 0.1.0"):
        assert word in shown


async def test_the_other_packages_viewer_shows_logs_samples_scores_and_errors(tmp_path: Path) -> None:
    logs = export(make_picture(tmp_path / "runs"), "inspect", tmp_path / "logs")
    async with asyncio.timeout(110), viewer(tmp_path / "logs") as address, page_of(tmp_path) as page:
        await page.open(address)
        await page.wait_for("document.body.innerText.includes('openai/big')")
        listed = await page.run("document.body.innerText")
        (new,) = [path for path in logs if path.name.endswith("_new.eval")]
        await page.open("about:blank")
        await page.open(f"{address}#/logs/{new.name}")
        await page.wait_for("document.body.innerText.includes('6 x 7')")
        shown = await page.run("document.body.innerText")
        await page.open("about:blank")
        await page.open(f"{address}#/logs/{new.name}/samples/sample/{TASKS[0]}/1/messages")
        await page.wait_for("document.body.innerText.includes('let me see')")
    assert listed.count("export & <test>") == 2
    assert TASKS[1] in shown


@asynccontextmanager
async def viewer(logs: Path) -> AsyncIterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "inspect_ai", "view", "start",
        *("--log-dir", str(logs), "--host", "127.0.0.1", "--port", str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}/"
        async with aiohttp.ClientSession() as session:
            while not await answers(session, address):
                await asyncio.sleep(0.1)
        yield address
    finally:
        process.kill()
        await process.wait()


async def answers(session: aiohttp.ClientSession, address: str) -> bool:
    try:
        async with session.get(address) as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False
