"""`bench view`: pages of a long run in a real browser, a search in what was said, a live run beside a page.

Pages: from the address to what people see, with a server that has read nothing yet. First paint: the
conclusion stands there. Map and table: drawn, with the first of them. Table page: one from the middle, sorted
by cost, asked for over HTTP. Search: a phrase that no trial holds, through all of them, in slices as pages
ask. Live: trials that do nothing but take their time, so that a thousand end each second, with a page of the
run open in a browser, against the same without.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.catalogue import Bench, Found
from bench.engine import coordinate
from bench.engine import make_run as make_live
from bench.figures import Bar, Figure
from bench.idle import IdleExecutor
from bench.memory import peak_mb
from bench.rounds import Rounds, Sample, Side, Sizes, Work, take_rounds
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


def prepare_alone(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to carry it out."""
    experiment, paths = make_live(folder, {**sizes, "trials": sizes["live"]})
    return lambda: asyncio.run(coordinate(experiment, paths, lambda _: None, _pace(sizes)))


def prepare_watched(folder: Path, sizes: Sizes) -> Work:
    """Make a run; the work is to carry it out while somebody looks at it."""
    experiment, paths = make_live(folder, {**sizes, "trials": sizes["live"]})

    async def carry_out(base: str) -> float:
        async with page_of(folder) as page:
            await page.open(f"{base}/run/bench")
            await page.wait_for(MAP)
            start = time.perf_counter()
            await coordinate(experiment, paths, lambda _: None, _pace(sizes))
            return time.perf_counter() - start

    def work() -> dict[str, float]:
        with serving(folder / "runs") as (base, _):
            return {"run": asyncio.run(carry_out(base))}

    return work


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("view", tuple(SIDES), sizes, rounds)
    slowed = taken.ratio("watched", "alone", lambda sample: sample.extra.get("run", sample.wall_s))
    return Found(
        figures=(
            *(Figure(name=name, value=_seen(taken, key), unit=unit, bar=Bar("at_most", bar))
              for name, key, unit, bar in FIGURES),
            Figure(name="ratio", value=slowed, unit="x", bar=Bar("at_most", 1.02)),
        ),
        samples={key: [sample.extra[key] for sample in taken.sides["pages"]] for _, key, _, _ in FIGURES}
        | {"alone": [_run_s(sample) for sample in taken.sides["alone"]],
           "watched": [_run_s(sample) for sample in taken.sides["watched"]]},
    )  # fmt: skip


def _seen(taken: Rounds, key: str) -> float:
    return taken.median("pages", lambda sample: sample.extra[key])


def _run_s(sample: Sample) -> float:
    return sample.extra.get("run", sample.wall_s)


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
    "alone": prepare_alone,
    "watched": prepare_watched,
}
BENCH: Final = Bench(
    name="view",
    work="`lab view` of a long run, cold; a search in what was said; 1,000 trials a second with a page open",
    against="the same live run without a page",
    sizes={"trials": 100_000, "said": 10_000, "live": 10_000, "rate": 1_000, "concurrency": 16},
    rounds=3,
    measure=measure,
)
