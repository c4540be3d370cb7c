"""A run in one file, in a real browser, as somebody sees it who got it by mail."""

import asyncio
import base64
import gzip
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from labrunner.errors import InputError
from labrunner.gateway.recording.calljournal import CALLS
from labrunner.interop.registry import export_run
from labrunner.records.rows import SlotRows
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.view.handout.cutting import CAPS, Cutter
from labrunner.view.left.beginning import beginnings
from labrunner.view.web.webserver import serving
from tests.kit.browser import Page, page_of
from tests.kit.made_runs import Told, make_grid, write_run
from tests.kit.view.handouts import PART
from tests.kit.view.left_behind import FAILED, PLANTED, TRIAL, refer, write_left, write_long

TEXT = "document.body.innerText"
HAS = f"{TEXT}.includes"
READY = "document.querySelectorAll('.tr').length > 3 && !!document.querySelector('canvas')"
LOG = "logs/agent.stdout"
HOLD = """(parts) => { for (const [id, text] of parts) {
    const place = document.createElement("div"); place.id = id; place.textContent = text; place.hidden = true;
    document.body.append(place); } }"""
BOTH = """async (name, words) => {
    const {answer} = await import("/pages/held.js");
    const asked = new URLSearchParams(words);
    return [await answer(name, words), await (await fetch(`/api/${name}?${asked}`)).json()]; }"""


@asynccontextmanager
async def opened(paths: RunPaths, folder: Path, *, is_full: bool = False) -> AsyncIterator[tuple[Page, str]]:
    (file,) = export_run(paths, "html", folder / "run.html", is_full=is_full)
    async with asyncio.timeout(100), page_of(folder) as page:
        yield page, file.as_uri()
        assert page.troubles == []
        assert [url for url in page.requests if not url.startswith(("file:", "blob:"))] == []


async def look(page: Page, url: str, until: str) -> str:
    await page.open("about:blank")  # an address that differs behind its `#` alone is not loaded anew
    await page.open(url)
    await page.wait_for(until)
    return str(await page.run(TEXT))


async def test_a_file_shows_the_run_its_trials_and_the_comparison_by_a_double_click(tmp_path: Path) -> None:
    async with opened(write_left(tmp_path / "runs"), tmp_path) as (page, url):
        run = await look(page, url, READY)
        assert "b against a: too few tasks" in run
        assert "attempt … went wrong" in run
        assert "ask in SQL" not in run
        errors = await look(page, f"{url}#/run/left?ending=error", f"{HAS}('2 of 12')")
        assert "2 of 12" in errors
        await page.run("document.querySelector('.tr a').click()")
        await page.wait_for(f"{HAS}('no grade, cause provider')")
        assert await page.run("location.hash") == f"#/run/left/trial/{FAILED}"
        await page.run("history.back()")
        await page.wait_for(f"{HAS}('2 of 12')")
        await look(page, f"{url}#/compare?a=left", "!!document.querySelector('.flips button')")
        owed = await look(page, f"{url}#/run/left/slot/11", f"{HAS}('slot 11')")
        assert "It has not been started yet" in owed


async def test_hostile_output_in_a_file_is_shown_and_does_nothing(tmp_path: Path) -> None:
    async with opened(write_left(tmp_path / "runs"), tmp_path) as (page, url):
        for tab in ("conversation", "terminal", "files", "grader", "record"):
            shown = await look(page, f"{url}#/run/left/trial/{TRIAL}?tab={tab}", f"{HAS}('onerror=')")
            assert "owned" not in await page.run("document.title")
            assert not set("\x00\x1b\u202e\u200b") & set(shown)
            assert await page.run(f"document.querySelectorAll({PLANTED!r}).length") == 0
        await look(page, f"{url}#/run/left/trial/{TRIAL}?tab=terminal", f"{HAS}('red')")
        assert await page.run("document.querySelector('.c1').textContent") == "red"
        assert "left <b>behind</b>" in await look(page, url, READY)


async def test_the_files_policy_lets_no_other_script_run(tmp_path: Path) -> None:
    async with opened(write_left(tmp_path / "runs"), tmp_path) as (page, url):
        await look(page, url, READY)
        planted = await page.run("""(() => { try {
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=\\"document.title='owned'\\">");
            return "planted"; } catch (error) { return error.name; } })()""")
        left = await page.run("fetch('https://example.invalid/').then(() => 'left', () => 'kept')")
        page.troubles.clear()  # that is what the browser says of the two
        page.requests[:] = [url for url in page.requests if "example.invalid" not in url]
    assert (planted, left) == ("TypeError", "kept")


def test_nothing_in_the_file_names_another_place_and_what_was_written_is_no_markup(tmp_path: Path) -> None:
    (file,) = export_run(write_left(tmp_path / "runs"), "html", tmp_path / "run.html")
    text = file.read_text()
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.findall(r"\b(?:src|href)=", markup)
    assert "default-src 'none'; script-src 'sha256-" in markup
    assert "left &lt;b&gt;behind" in markup
    assert set(re.findall(r"<(\w+)", markup)) == {"html", "head", "meta", "title", "body", "div", "noscript"}


QUESTIONS = [
    ("run", {}), ("errors", {}), ("times", {}), ("compare", {"a": "left"}),
    ("compare", {"a": "left", "baseline": "b"}),
    ("trial", {"trial": FAILED}), ("trial", {"slot": "11"}), ("trial", {"slot": "5"}),
    ("conversation", {"trial": TRIAL, "attempt": "1"}),
    ("text", {"trial": TRIAL, "attempt": "1", "digest": refer("logs/agent.stdout").digest}),
    ("folders", {"trial": TRIAL, "attempt": "1"}),
    ("search", {"q": "onerror"}), ("search", {"q": "let me look"}), ("search", {"q": "RIGHT", "from": "1"}),
    *[("trials", {"sort": sort, "down": down, "limit": "100", "offset": "1"})
      for sort in ("slot", "task", "variant", "repl", "ending", "value", "attempts", "time", "tokens", "cost")
      for down in ("", "1")],
    *[("trials", {"limit": "100", **words}) for words in (
        {"q": "T1 provider"}, {"ending": "error"}, {"variant": "b"}, {"cause": "provider"},
        {"text": "attempt … went wrong"}, {"q": "nowhere"})],
    *[("map", {"sort": sort, "down": down, "limit": "4", "offset": "1"})
      for sort in ("order", "name", "mean", "difference", "variance", "errors", "cost", "time")
      for down in ("", "1")],
]  # fmt: skip


async def test_a_file_answers_every_question_as_the_server_does(tmp_path: Path) -> None:
    paths = write_left(tmp_path / "runs")
    (file,) = export_run(paths, "html", tmp_path / "run.html")
    parts = PART.findall(file.read_text())
    async with asyncio.timeout(100), serving(tmp_path / "runs") as place, page_of(tmp_path) as page:
        await page.open(f"http://127.0.0.1:{place.port}/")
        await page.run(f"({HOLD})({json.dumps(parts)})")
        for name, words in QUESTIONS:
            asked = {"run": "left", **words}
            held, told = await page.run(f"({BOTH})({json.dumps(name)}, {json.dumps(asked)})")
            for answer in (held, told):
                answer.pop("record_text", None)  # the same record, whose letters stand as they are
                answer.pop("summary", None)  # made anew, it says when that was; the figures are in it twice
            assert held == told, (name, words)
        assert page.troubles == []


def test_texts_are_cut_only_where_a_part_has_no_room_and_what_is_spared_is_used(tmp_path: Path) -> None:
    noise = os.urandom(CAPS[0]).hex().encode()
    paths = write_long(tmp_path, [{LOG: b"short\n"}, {LOG: noise}])
    few, many = iter_finished(paths)

    def size_of(cutter: Cutter, rows: SlotRows) -> int:
        return len(cutter.cut([rows]))

    with beginnings(paths) as began:
        tight = Cutter(paths=paths, began=began, share=4_000)
        assert size_of(tight, few) < 4_000 * 4 // 3
        assert tight.spare > 0
        assert size_of(tight, many) <= 8_000 * 4 // 3 + 4
        wide = Cutter(paths=paths, began=began, share=200_000)
        assert size_of(wide, many) > 40_000
        full = Cutter.of(paths, began, 2, is_full=True)
        assert size_of(full, many) > size_of(wide, many)


async def test_a_cut_text_says_so_and_a_full_file_holds_it_whole(tmp_path: Path) -> None:
    paths = write_long(tmp_path / "runs", [{LOG: b"BEGIN\n" + b"line of text\n" * 20_000 + b"END\n"}])
    async with opened(paths, tmp_path) as (page, url):
        cut = await look(page, f"{url}#/run/made/slot/0?tab=terminal", f"{HAS}('END')")
        assert "are not in this file" in cut
        assert "BEGIN" not in cut
    async with opened(paths, tmp_path, is_full=True) as (page, url):
        whole = await look(page, f"{url}#/run/made/slot/0?tab=terminal", f"{HAS}('END')")
        assert "BEGIN" in whole


def test_calls_that_are_lost_are_told_in_their_place_and_the_rest_is_there(tmp_path: Path) -> None:
    paths = write_long(tmp_path / "runs", [{CALLS: b"{}\n", LOG: b"one\n"}, {LOG: b"two\n"}])
    lost, _ = iter_finished(paths)
    (paths.attempt(lost.trial_id, 1) / CALLS).unlink()
    (file,) = export_run(paths, "html", tmp_path / "run.html")
    told: dict[str, Any] = {}
    for name, letters in PART.findall(file.read_text()):
        if name.removeprefix("part-").isdecimal():
            told |= json.loads(gzip.decompress(base64.b64decode(letters)))
    assert [entry["kind"] for entry in told["0"]["said"]] == ["error"]
    assert "calls.jsonl: the file is gone; try: lab verify" in told["0"]["said"][0]["text"]
    assert told["1"]["texts"]


def test_a_format_that_never_cuts_refuses_to_be_full(tmp_path: Path) -> None:
    paths = write_run(tmp_path, make_grid(), lambda _: Told())
    with pytest.raises(InputError, match="csv never leaves anything out"):
        export_run(paths, "csv", tmp_path / "x.csv", is_full=True)


@pytest.mark.torture
def test_two_thousand_trials_that_wrote_noise_stay_under_fifteen_megabytes(tmp_path: Path) -> None:
    paths = write_long(tmp_path / "runs", [{LOG: os.urandom(20_000).hex().encode()} for _ in range(2_000)])
    (file,) = export_run(paths, "html", tmp_path / "run.html")
    assert file.stat().st_size < 15_000_000
