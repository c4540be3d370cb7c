"""`bench gateway`: what the gateway adds between an agent and its model.

Through: the gateway's own process, with its records synced, between a client and a provider on this machine.
Direct: the same client at the same provider. Both ways: requests one after another; a stream whose pieces
are stamped when they are sent; 64 streams at once, at the pace of a quick model. Beside that: the gateway's
memory over many calls of many attempts, and trials in bubblewrap that have a door and do not use it.
"""

import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.catalogue import Bench, Found
from bench.figures import Bar, Figure
from bench.rounds import Rounds, Sample, Side, Sizes, Work, take_rounds
from bench.talker import Client, connect, run_provider
from bench.workload import Shape, write_experiment
from labrunner.experiment.resolving.load import load
from labrunner.gateway.process.control import Admit, Hello, ToldModel, ToldPrice
from labrunner.gateway.process.owner import GatewayOwner
from labrunner.gateway.process.place import GatewayPlace
from labrunner.records.encoding.ids import Ids
from labrunner.runner.own_loop import run_alone
from labrunner.runner.sitting.sitting import Live
from labrunner.runner.start import RunOptions, run_experiment

LOOPBACK: Final = "127.0.0.1"
PATH: Final = "/v1/chat/completions"
PACE_MS: Final = 20.0
"""Between pieces of a stream: 50 a second."""
IDS: Final = Ids(run_id="bench", trial_id="t", variant_id="v", task_id="t", repl_idx=0)


@dataclass(frozen=True, slots=True)
class Way:
    """How the model is reached."""

    port: int
    path: str
    owner: GatewayOwner | None = None


@asynccontextmanager
async def go_through(folder: Path, provider: int) -> AsyncIterator[Way]:
    """Have a gateway in between, with one attempt."""
    price = ToldPrice(input=1.0, output=10.0)
    base = f"http://{LOOPBACK}:{provider}/v1"
    model = ToldModel(
        name="m", dialect="openai", base_url=base, key="k", prices={"m": price}, max_connections=128
    )
    owner = GatewayOwner(GatewayPlace(folder / "gateway"), Hello(models=(model,), trials=str(folder / "t")))
    try:
        ports = (await owner.listen(LOOPBACK)).ports
        await admit(owner, folder, "t")
        yield Way(ports[0], f"/m{PATH}", owner)
        await owner.dismiss("t")
    finally:
        await owner.close()


async def admit(owner: GatewayOwner, folder: Path, name: str) -> None:
    place = folder / "t" / name / "1"
    place.mkdir(parents=True)
    told = Admit(visit=name, ids=IDS, attempt=1, folder=str(place), token=name, models=("m",), host=LOOPBACK)
    await owner.admit(told, lambda _: None)


async def talk(way: Way, sizes: Sizes) -> Mapping[str, float]:
    """One after another, then many at once."""
    async with connect(way.port, way.path) as client:
        for number in range(20):
            await client.ask(f"warm {number}")
        asked = [await client.ask(f"question {number}") for number in range(sizes["requests"])]
        late = await client.hear(sizes["pieces"], 2.0)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connect(way.port, way.path)) for _ in range(sizes["streams"])
        ]
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for each in clients:
                group.create_task(each.hear(sizes["pieces"], PACE_MS))
        together_s = time.monotonic() - started
    return {
        "request_ms": 1000 * statistics.median(asked),
        "piece_ms": 1000 * statistics.median(late),
        "together_s": together_s,
    }


def prepare_direct(folder: Path, sizes: Sizes) -> Work:
    """The work is to talk to the provider."""
    del folder

    def work() -> Mapping[str, float]:
        with run_provider() as port:
            return asyncio.run(talk(Way(port, PATH), sizes))

    return work


def prepare_through(folder: Path, sizes: Sizes) -> Work:
    """The work is to talk to it through the gateway."""

    async def go(provider: int) -> Mapping[str, float]:
        async with go_through(folder, provider) as way:
            return await talk(way, sizes)

    def work() -> Mapping[str, float]:
        with run_provider() as port:
            return asyncio.run(go(port))

    return work


def prepare_long(folder: Path, sizes: Sizes) -> Work:
    """The work is as many calls as asked, by attempts of a hundred calls each."""

    async def go(provider: int) -> Mapping[str, float]:
        async with go_through(folder, provider) as way:
            assert way.owner is not None
            halves, seen = max(2, sizes["calls"] // 100), list[float]()
            for number in range(halves):
                name = f"a{number}"
                await admit(way.owner, folder, name)
                async with connect(way.port, way.path, name) as client:
                    await ask_often(client, 100)
                await way.owner.dismiss(name)
                seen.append(find_memory_mb(folder / "gateway"))
            return {"early_mb": statistics.median(seen[halves // 10 : halves // 5 + 1]), "late_mb": seen[-1]}

    def work() -> Mapping[str, float]:
        with run_provider() as port:
            return asyncio.run(go(port))

    return work


async def ask_often(client: Client, times: int) -> None:
    for number in range(times):
        await client.ask(f"question {number}")


def find_memory_mb(place: Path) -> float:
    """Resident memory of the process that is the gateway there."""
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.fsencode(place) in Path("/proc", each, "cmdline").read_bytes().split(b"\0"):
                return (
                    int(Path("/proc", each, "statm").read_text().split()[1])
                    * os.sysconf("SC_PAGE_SIZE")
                    / 1e6
                )
        except OSError:
            continue
    raise SystemExit("the gateway is gone")


def prepare_trials(folder: Path, sizes: Sizes, *, has_door: bool) -> Work:
    """The work is a run in bubblewrap whose agents do nothing with their model, if they have one."""
    shape = Shape(tasks=sizes["trials"], replications=1, concurrency=1, sandbox="bubblewrap")
    path = write_experiment(folder / "experiment", shape)
    if has_door:
        written = json.loads(path.read_text())
        written["models"] = {"m": {"dialect": "openai", "base_url": "http://127.0.0.1:9/v1", "key": None}}
        written["agent"]["network"] = {"models": ["m"]}
        path.write_text(json.dumps(written))
    experiment = load(path)
    options = RunOptions(runs_dir=folder / "runs", secrets={}, run_id="bench")

    async def watch(live: Live) -> None:
        """Nobody looks."""

    def work() -> Mapping[str, float]:
        end = run_alone(run_experiment(experiment, options, watch))
        assert end.status.counts.passed == sizes["trials"], end.status.counts
        return {"trial_ms": statistics.median(map(_took_ms, end.paths.timings.read_bytes().splitlines()))}

    return work


def _took_ms(line: bytes) -> float:
    [attempt] = json.loads(line)["attempts"]
    begun, ended = (datetime.fromisoformat(attempt[name]) for name in ("started_at", "ended_at"))
    return (ended - begun).total_seconds() * 1000


SIDES: Final[dict[str, Side]] = {
    "direct": prepare_direct,
    "through": prepare_through,
    "long": prepare_long,
    "plain": lambda folder, sizes: prepare_trials(folder, sizes, has_door=False),
    "door": lambda folder, sizes: prepare_trials(folder, sizes, has_door=True),
}


def measure(sizes: Sizes, rounds: int) -> Found:
    taken = take_rounds("gateway", ("direct", "through", "plain", "door"), sizes, rounds)
    memory = take_rounds("gateway", ("long",), sizes, 1)
    return Found(
        figures=(
            _more(taken, "a request takes more", "request_ms", "through", "direct", 2.0),
            _more(taken, "a piece of a stream", "piece_ms", "through", "direct", 0.2),
            _more(taken, "a trial with a door", "trial_ms", "door", "plain", 5.0),
            Figure(name="memory at first", value=memory.median("long", _get("early_mb")), unit="MB"),
            Figure(
                name="at the end",
                value=memory.median("long", lambda each: each.extra["late_mb"] / each.extra["early_mb"]),
                unit="x",
                bar=Bar("at_most", 1.1),
            ),
            Figure(
                name="ratio",
                value=taken.ratio("through", "direct", _get("together_s")),
                unit="x",
                bar=Bar("at_most", 1.1),
            ),
        ),
        samples={name: [sample.wall_s for sample in samples] for name, samples in taken.sides.items()},
    )


def _more(taken: Rounds, name: str, what: str, side: str, to: str, bar: float) -> Figure:
    pairs = zip(taken.sides[side], taken.sides[to], strict=True)
    more = statistics.median(one.extra[what] - other.extra[what] for one, other in pairs)
    return Figure(name=name, value=more, unit="ms", bar=Bar("at_most", bar))


def _get(name: str) -> Callable[[Sample], float]:
    return lambda sample: sample.extra[name]


BENCH: Final = Bench(
    name="gateway",
    work="requests and streams of a model through the gateway; 64 streams at 50 pieces a second",
    against="the same client at the same provider; trials without a door",
    sizes={"requests": 300, "pieces": 200, "streams": 64, "calls": 10_000, "trials": 60},
    rounds=3,
    measure=measure,
)
