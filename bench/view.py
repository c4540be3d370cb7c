"""`bench view`: pages of a long run in a real browser, a search in what was said, a live run beside a page.

Pages: from the address to what people see, with a server that has read nothing yet. First paint: the
conclusion stands there. Map and table: drawn, with the first of them. Table page: one from the middle, sorted
by cost, asked for over HTTP. Search: a phrase that no trial holds, through all of them, in slices as pages
ask. Live: trials that do nothing but take their time, so that a thousand end each second; a page of the run
is opened in a browser and left again, and each span with it is compared with the one beside it without.
"""

import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from bench.catalogue import Bench, Found
from bench.engine import coordinate
from bench.engine import make_run as make_live
from bench.figures import Bar, Figure
from bench.idle import IdleExecutor
from bench.memory import peak_mb
from bench.rounds import Rounds, Side, Sizes, Work, take_rounds
from bench.watching import Span
from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.reports.results import summarise_run
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_trials
from tests.kit.browser import Page, page_of
from tests.kit.made_runs import Told, make_grid, write_run

LAB: Final = str(Path(sys.executable).with_name("lab"))
VARIANTS: Final = ("first", "second")
REPLICATIONS: Final = 5
HEADLINE: Final = "!!document.querySelector('.finding')"
MAP: Final = (
    "!!document.querySelector('.map canvas')?.width && document.querySelector('.map canvas').height > 100"
)
TABLE: Final = "document.querySelectorAll('.tr a').length > 10"
SINCE: Final = """new Promise((tell) => {{ const look = () => ({what})
    ? requestAnimationFrame(() => tell(performance.now())) : setTimeout(look, 4); look(); }})"""
WORDS: Final = "the agent looked at the file and wrote what it had found there to another one "
SEARCHED: Final = "nobody ever said this"


def script(slot: Slot) -> Told:
    """Verdicts, parts of them, errors with their texts, costs."""
    if slot.schedule_idx % 97 == 0:
        return Told(value=None, errors=(Cause.PROVIDER,))
    value = float((slot.task_idx * 7 + slot.repl_idx * 3 + slot.variant_idx) % 10 < slot.task_idx % 10)
    return Told(
        value=value, usage={"tokens": slot.schedule_idx % 5000, "cost_usd": (slot.task_idx % 50) / 100}
    )


def make_long(runs_dir: Path, trials: int) -> RunPaths:
    """A run of so many trials, with its summary."""
    tasks = max(1, trials // (len(VARIANTS) * REPLICATIONS))
    grid = make_grid(tasks=tasks, variants=VARIANTS, replications=REPLICATIONS)
    paths = write_run(runs_dir, grid, script, run_id="long")
    paths.summary.write_bytes(canonical.encode_line(summarise_run(read_experiment(paths), "long", paths)))
    return paths


def make_said(runs_dir: Path, trials: int) -> RunPaths:
    """A run whose trials left a conversation of 12 KB and a log of 3 KB each."""
    message = {"event": "message", "message": {"role": "assistant", "content": WORDS * 5}}
    left = {"transcript.jsonl": canonical.encode_line(message) * 28, "logs/agent.stdout": WORDS.encode() * 40}
    logs = tuple(
        FileRef(path=path, digest=canonical.digest_bytes(data), size=len(data)) for path, data in left.items()
    )
    grid = make_grid(tasks=max(1, trials // 2))
    paths = write_run(runs_dir, grid, lambda _: Told(logs=logs, prediction=WORDS), run_id="said")
    for row in iter_trials(paths):
        for path, data in left.items():
            target = paths.attempt(row.ids.trial_id, 1) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return paths


@contextmanager
def serving(runs_dir: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """`lab view` as a process of its own."""
    argv = [LAB, "view", str(runs_dir), "--no-open"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+?:\d+", server.stdout.readline())
            assert found is not None
            yield found[0], server
        finally:
            server.terminate()


def ask(base: str, name: str, **words: object) -> Any:  # noqa: ANN401 - JSON
    """Ask the server as a page does."""
    query = "&".join(f"{key}={str(value).replace(' ', '%20')}" for key, value in words.items())
    with urllib.request.urlopen(f"{base}/api/{name}?{query}") as answer:
        return json.load(answer)


def prepare_pages(folder: Path, sizes: Sizes) -> Work:
    """Make runs; the work is to look at them."""
    make_long(folder / "runs", sizes["trials"])
    make_said(folder / "runs", sizes["said"])

    def work() -> dict[str, float]:
        with serving(folder / "runs") as (base, server):
            told = asyncio.run(_look(base, folder))
            told["table"] = _median(lambda: _take_page(base, sizes["trials"] // 2))
            told["sort"] = _take(lambda: ask(base, "trials", run="long", sort="tokens", down=1, limit=100))
            _search(base, "never said either")  # so that files and the board are read
            told["search"] = _take(lambda: _search(base, SEARCHED))
            told["memory"] = peak_mb(server.pid)
        return told

    return work


async def _look(base: str, folder: Path) -> dict[str, float]:
    async with page_of(folder) as page:
        await page.open(f"{base}/")  # the browser is warm, the run is not read
        await page.open("about:blank")
        await page.open(f"{base}/run/long")
        return {name: await _since(page, what) for name, what in _SEEN.items()}


_SEEN: Final = {"paint": HEADLINE, "map": MAP, "rows": TABLE}


async def _since(page: Page, what: str) -> float:
    """Seconds from the address to what is asked for, as the page's own clock has them."""
    return float(await page.run(SINCE.format(what=what))) / 1000


def _take_page(base: str, offset: int) -> None:
    told = ask(base, "trials", run="long", sort="cost", down=1, offset=offset, limit=100)
    assert len(told["rows"]) == 100


def _search(base: str, phrase: str) -> None:
    following: int | None = 0
    while following is not None:
        told = ask(base, "search", run="said", q=phrase, **{"from": following})
        assert not told["hits"]
        following = told["next"]


def _take(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _median(work: Callable[[], object]) -> float:
    _take(work)
    return sorted(_take(work) for _ in range(9))[4]


def _pace(sizes: Sizes) -> IdleExecutor:
    """An executor whose trials end at the rate that is asked for, while nothing holds them up."""
    return IdleExecutor(takes_s=sizes["concurrency"] / sizes["rate"])


def prepare_watched(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to carry it out while somebody looks at it now and then."""
    experiment, paths = make_live(folder, {**sizes, "trials": sizes["live"]})

    def work() -> dict[str, float]:
        ended: list[float] = []
        with serving(folder / "runs") as (base, _), watching(f"{base}/run/bench", folder) as watcher:
            note = lambda _: ended.append(time.monotonic())  # noqa: E731 - of one line
            asyncio.run(coordinate(experiment, paths, note, _pace(sizes)))
            watcher.terminate()
            said, _ = watcher.communicate()
        spans = msgspec.json.Decoder(Span).decode_lines(said)
        rates = [(_rate(ended, span), span.is_watched) for span in spans if span.end < ended[-1]]
        return {f"pair {number}": slowed for number, slowed in enumerate(_pair(rates))}

    return work


@contextmanager
def watching(url: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Somebody who looks at a page now and then, in a process of its own."""
    argv = [sys.executable, "-m", "bench.watching", url, str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as watcher:
        try:
            yield watcher
        finally:
            watcher.terminate()


def _rate(ended: list[float], span: Span) -> float:
    """Trials a second in a span."""
    count = bisect_left(ended, span.end) - bisect_left(ended, span.start)
    return count / (span.end - span.start)


def _pair(rates: list[tuple[float, bool]]) -> Iterator[float]:
    """How much slower each watched span was than the one beside it that nobody watched."""
    for (one, is_watched), (other, _) in zip(rates[::2], rates[1::2], strict=False):
        yield other / one if is_watched else one / other


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("view", tuple(SIDES), sizes, rounds)
    pairs = [pair for sample in taken.sides["watched"] for pair in sample.extra.values()]
    return Found(
        figures=(
            *(Figure(name=name, value=_seen(taken, key), unit=unit, bar=Bar("at_most", bar))
              for name, key, unit, bar in FIGURES),
            Figure(name="+/-", value=_uncertainty(pairs), unit="x", bar=Bar("at_most", 0.02)),
            Figure(name="ratio", value=statistics.median(pairs), unit="x", bar=Bar("at_most", 1.02)),
        ),
        samples={key: [sample.extra[key] for sample in taken.sides["pages"]] for _, key, _, _ in FIGURES}
        | {"slowed": pairs},
    )  # fmt: skip


def _uncertainty(pairs: list[float]) -> float:
    """Half of what holds the median of such pairs 95 times in 100: with more, the bar says nothing."""
    sampled = np.random.default_rng(0).choice(pairs, (4_000, len(pairs)))
    low, high = np.quantile(np.median(sampled, axis=1), (0.025, 0.975))
    return float(high - low) / 2


def _seen(taken: Rounds, key: str) -> float:
    return taken.median("pages", lambda sample: sample.extra[key])


FIGURES: Final = (
    ("first paint", "paint", "s", 1.0),
    ("map drawn", "map", "s", 1.0),
    ("trials drawn", "rows", "s", 1.0),
    ("a page of trials", "table", "s", 0.15),
    ("a new order of trials", "sort", "s", 0.15),
    ("search", "search", "s", 2.0),
    ("the server's memory", "memory", "MB", 300.0),
)
SIDES: Final[dict[str, Side]] = {
    "pages": prepare_pages,
    "watched": prepare_watched,
}
BENCH: Final = Bench(
    name="view",
    work="`lab view` of a long run, cold; a search in what was said; 1,000 trials a second with a page open",
    against="the same live run while nobody looks, in turns of two seconds",
    sizes={"trials": 100_000, "said": 10_000, "live": 40_000, "rate": 1_000, "concurrency": 16},
    rounds=3,
    measure=measure,
)
