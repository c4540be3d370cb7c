"""Pages in a real browser: what people see of runs in every state, and what hostile output can't do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from labrunner.experiment.schedule import Slot
from labrunner.records.run import Counts
from labrunner.store.rows.lock import acquire
from labrunner.view.web.webserver import serving
from tests.kit.browser import Page, page_of
from tests.kit.builders import make_experiment, make_policy, make_task, make_variant
from tests.kit.made_runs import Told, edit_status, make_grid, write_run
from tests.kit.view.left_behind import HOSTILE, PLANTED, TRIAL, write_left, write_long

TEXT = "document.body.innerText"
HAS = f"{TEXT}.includes"
READY = "document.querySelectorAll('.tr').length > 3 && !!document.querySelector('canvas') && !!document.querySelector('.finding')"  # noqa: E501 - one question
COUNTS = {
    "planned": 12, "committed": 5, "buffered": 2, "running": 2, "passed": 4, "failed": 3, "errors": 0,
}  # fmt: skip
IS_WIDE = "document.documentElement.scrollWidth > innerWidth"
PRESS = """(key) => (document.activeElement ?? document.body)
    .dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}))"""


TYPE = """{ const field = document.querySelector("[aria-label='search what was said']");
    field.value = "LET me"; field.dispatchEvent(new Event("input", {bubbles: true})); }"""


class Viewer:
    """A browser that looks at runs."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base

    async def open(self, path: str, until: str) -> str:
        """Open a page, wait for what it is to show, and give its text."""
        await self.page.open(f"{self.base}{path}")
        return await self.wait(until)

    async def wait(self, until: str) -> str:
        await self.page.wait_for(until)
        return str(await self.page.run(TEXT))

    async def press(self, key: str, until: str) -> str:
        await self.page.run(f"({PRESS})({key!r})")
        return await self.wait(until)


@asynccontextmanager
async def viewing(tmp_path: Path) -> AsyncIterator[Viewer]:
    async with asyncio.timeout(100), serving(tmp_path / "runs") as place, page_of(tmp_path) as page:
        yield Viewer(page, f"http://127.0.0.1:{place.port}")
        assert page.troubles == []
        assert [url for url in page.requests if not url.startswith(f"http://127.0.0.1:{place.port}/")] == []


def half(slot: Slot) -> Told | None:
    if slot.schedule_idx >= 5:
        return None
    return Told(value=float(slot.schedule_idx % 2), node=f"gpu-{slot.schedule_idx % 2}/4f1c09ab")


async def test_runs_a_run_and_a_trial_are_shown_and_walked_by_keys(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    bad = write_left(tmp_path / "runs", "bad")
    bad.trials.write_bytes(bad.trials.read_bytes().replace(b'"ids":', b'"1ds":', 1))
    write_run(tmp_path / "runs", make_grid(name="half"), half, run_id="dead", status="started")
    async with viewing(tmp_path) as viewer:
        runs = await viewer.open("/", f"{HAS}('3 runs')")
        assert "lab continue" in runs
        assert "left <b>behind</b>" in runs
        filtered = await viewer.open("/?q=dead", f"{HAS}('1 run')")
        assert "left <b>behind</b>" not in filtered

        crashed = await viewer.open("/run/dead", f"{READY} && {HAS}('Where trials ran')")
        nodes = ("2 nodes; each trial by its last attempt", "gpu-0/4f1c09ab", "gpu-1/4f1c09ab")
        for said in ("crashed", "5 trials committed", "lab continue", *nodes):
            assert said in crashed, said

        compared = await viewer.open("/compare?a=left", "!!document.querySelector('.flips button')")
        assert "better with b" in compared
        await viewer.page.run("document.querySelector('.flips button').click()")
        await viewer.wait("document.querySelectorAll('.sides .scrolling').length == 2")

        sql = quote("select outcome, count(*) n from trials group by outcome")
        answered = await viewer.open(f"/query?run=left&sql={sql}", "!!document.querySelector('.answer td')")
        assert "failed" in answered

        run = await viewer.open("/run/left", READY)
        assert "b against a: too few tasks" in run
        assert "attempt … went wrong" in run
        errors = await viewer.open("/run/left?ending=error", f"{READY.replace('> 3', '== 2')}")
        assert "2 of 12" in errors
        await viewer.press("j", "!!document.querySelector('.tr.chosen')")
        trial = await viewer.press("Enter", f"{HAS}('no grade, cause provider')")
        assert "attempt 2" in trial
        await viewer.press("n", f"{HAS}('slot 3')")
        await viewer.press("p", f"{HAS}('slot 2')")
        await viewer.press("v", f"{HAS}('slot 3')")
        await viewer.press("4", f"{HAS}('slot_commit_id')")
        await viewer.press("g", "true")
        await viewer.press("r", f"{HAS}('3 runs')")

        assert viewer.page.troubles == []
        damaged = await viewer.open("/run/bad", f"{HAS}('damaged: type')")
        assert "be read as they are" in damaged
        assert "lab log recover" in damaged
        viewer.page.troubles.clear()  # the browser notes that there was no answer


async def test_what_was_said_is_searched_as_somebody_types(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    async with viewing(tmp_path) as viewer:
        await viewer.open("/run/left", READY)
        await viewer.page.run(TYPE)
        found = await viewer.wait("document.querySelector('.hits mark')?.textContent == 'let me'")
        assert "1 trial" in found
        assert await viewer.page.run("location.search") == "?said=LET+me"
        await viewer.page.run("document.querySelector('.hits a').click()")
        await viewer.wait("!!document.querySelector('.conversation .assistant')")


async def test_hostile_output_is_shown_and_does_nothing(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    async with viewing(tmp_path) as viewer:
        for tab in ("conversation", "terminal", "files", "grader", "record"):
            shown = await viewer.open(f"/run/left/trial/{TRIAL}?tab={tab}", f"{HAS}('onerror=')")
            assert ("calls bash <b>ls</b>" in shown) == (tab == "conversation")
            assert "owned" not in await viewer.page.run("document.title")
            assert not set("\x00\x1b\u202e\u200b") & set(shown)
        planted = await viewer.page.run(f"document.querySelectorAll({PLANTED!r}).length")
        await viewer.open(f"/run/left/trial/{TRIAL}?tab=terminal", f"{HAS}('red')")
        styled = await viewer.page.run("document.querySelector('.c1').textContent")
    assert planted == 0
    assert styled == "red"


async def test_a_line_of_fifty_megabytes_is_cut_and_does_nothing(tmp_path: Path) -> None:
    line = b"<b>" * (50 * 2**20 // 3) + HOSTILE
    message = {"event": "message", "message": {"role": "user", "content": line.decode(errors="replace")}}
    left = {"logs/agent.stdout": line, "transcript.jsonl": json.dumps(message).encode() + b"\n"}
    write_long(tmp_path / "runs", [left])
    async with viewing(tmp_path) as viewer:
        await viewer.open("/run/made/slot/0?tab=terminal", f"{HAS}('onerror=')")
        assert await viewer.page.run(f"{TEXT}.length") < 200_000
        said = await viewer.open("/run/made/slot/0?tab=conversation", f"{HAS}('more characters')")
        assert len(said) < 200_000
        assert await viewer.page.run("document.title") != "owned"
        assert await viewer.page.run(f"document.querySelectorAll({PLANTED!r}).length") == 0


async def test_pages_fit_a_phone_and_the_map_is_walked_by_arrows(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    async with viewing(tmp_path) as viewer:
        await viewer.page.resize(375, 800)
        for path, until in (
            ("/", f"{HAS}('1 run')"),
            ("/run/left", READY),
            ("/run/left?said=look", "!!document.querySelector('.hits mark')"),
            (f"/run/left/trial/{TRIAL}?tab=terminal", f"{HAS}('onerror=')"),
            (f"/run/left/trial/{TRIAL}?tab=files", f"{HAS}('transcript.jsonl') && {HAS}('onerror')"),
            ("/compare?a=left&flip=t4", "document.querySelectorAll('.scrolling').length == 2"),
            ("/query?run=left", "!!document.querySelector('.answer td')"),
        ):
            await viewer.open(path, until)
            assert not await viewer.page.run(IS_WIDE), path
        await viewer.open("/run/left", READY)
        await viewer.page.run("document.querySelector('canvas').focus()")
        await viewer.press("ArrowDown", f"{HAS}('t0 · a · replication 1: pass')")
        await viewer.press("ArrowDown", f"{HAS}('t1 · a · replication 1: error')")
        assert "no grade" in await viewer.press("Enter", f"{HAS}('no grade')")


async def test_a_page_of_a_live_run_follows_it_without_being_loaded_again(tmp_path: Path) -> None:
    paths = write_run(tmp_path / "runs", make_grid(tasks=6), half, run_id="live", status="started")
    async with viewing(tmp_path) as viewer:
        with acquire(paths):
            shown = await viewer.open("/run/live", READY)
            assert "Figures so far" in shown
            await viewer.page.run("window.isSame = true")
            edit_status(paths, counts=Counts(**COUNTS))
            await viewer.wait(f"{HAS}('7 of 12 done, 2 under way') && window.isSame")
        await viewer.wait(f"{HAS}('crashed') && {HAS}('lab continue') && window.isSame")


LONG = "every-name-of-this-run-begins-with-the-same-words-and-goes-on-and-on/"
ENDS_ARE_SEEN = """[...document.querySelectorAll(".tr a")].every((cell) => {
    const text = cell.lastChild, range = document.createRange();
    range.setStart(text, text.length - 2); range.setEnd(text, text.length);
    return range.getBoundingClientRect().right <= cell.parentElement.getBoundingClientRect().right; })"""
IS_APART = """(() => { const [one, other] = ["h1", ".help-button"]
    .map((each) => document.querySelector(each).getBoundingClientRect());
    return one.right <= other.left || other.bottom <= one.top; })()"""
NAME_WIDTH = "document.querySelector('.variants th[scope]').getBoundingClientRect().width"


async def test_of_several_variants_the_page_says_which_is_ahead_and_what_each_comparison_found(
    tmp_path: Path,
) -> None:
    def ahead(slot: Slot) -> Told:
        return Told(value=float(slot.variant_idx == 2 or (slot.variant_idx == 1 and slot.task_idx % 2)))

    write_run(tmp_path / "runs", make_grid(tasks=30, variants=("none", "half", "all")), ahead)
    async with viewing(tmp_path) as viewer:
        shown = await viewer.open("/run/made", READY)
        assert "all has the best mean and is better than none" in shown
        assert "Against none: better 2." in shown
        assert "half minus none" not in shown
        found = await viewer.page.run("[...document.querySelectorAll('.against')].map((e) => e.innerText)")
        assert found == ["baseline", "+0.500\nbetter", "+1.000\nbetter"]
        await viewer.page.run("document.querySelector('details.says summary').click()")
        assert "half minus none" in await viewer.wait("document.querySelector('details.says').open")
        # What a run's owner has written down of its means so far holds no comparison.
        figures = json.dumps([{"variant_id": name, "observed": at / 2} for at, name in enumerate("abc")])
        ask = f"import('/pages/run.js').then((page) => page.rank({figures}, []))"
        assert await viewer.page.run(ask) == "c has the best mean so far, 1.000"


async def test_long_names_are_told_apart_and_nothing_lies_over_them(tmp_path: Path) -> None:
    grid = make_experiment(
        name=f"run of {LONG.replace('-', ' ') * 2}",
        tasks=tuple(make_task(f"{LONG}{number}") for number in range(6)),
        variants=tuple(make_variant(f"{LONG}{name}") for name in "abc"),
        policy=make_policy(fail_on_error=False),
    )
    write_run(tmp_path / "runs", grid, lambda slot: Told(value=float(slot.variant_idx == 1)))
    async with viewing(tmp_path) as viewer:
        for width in (1280, 375):
            await viewer.page.resize(width, 900)
            await viewer.open("/run/made", READY)
            assert await viewer.page.run(ENDS_ARE_SEEN)
            assert not await viewer.page.run(IS_WIDE)
            assert await viewer.page.run(NAME_WIDTH) > 160
            assert width < 720 or await viewer.page.run(IS_APART)


async def test_a_page_whose_server_was_away_goes_on_by_itself(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    runs = tmp_path / "runs"
    async with asyncio.timeout(100), page_of(tmp_path) as page:
        async with serving(runs) as place:
            viewer = Viewer(page, f"http://127.0.0.1:{place.port}")
            await viewer.open("/", f"{HAS}('1 run')")
        await page.run(
            "dispatchEvent(new PopStateEvent('popstate', history.pushState({}, '', '/run/left') ?? {}))"
        )
        await viewer.wait(f"{HAS}('the server does not answer')")
        async with serving(runs, port=place.port):
            await viewer.wait(f"{READY} && !{HAS}('the server does not answer')")
            write_left(runs, "second")
            await page.run("document.querySelector('a[href=\"/\"]').click()")
            await viewer.wait(f"{HAS}('2 runs')")
            write_left(runs, "third")
            await viewer.wait(f"{HAS}('3 runs')")  # it listens again, too
