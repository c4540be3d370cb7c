"""The one place that speaks to Ray: which nodes there are, and a worker's process on each.

Rules: Ray places processes and carries bytes; it holds no state of ours, tries nothing again, starts nothing
again. Whatever it says of a process that is gone, or can't be reached, is one exception: `NodeLost`. It is
loaded when a cluster is asked for, and not before. Its library has no types that a checker could use.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from labrunner.errors import InputError, SandboxFailed
from labrunner.executor.cluster.head import NO_CLUSTER, check_head, refuse
from labrunner.executor.cluster.strongbox import INSTALL
from labrunner.executor.cluster.wire.nearend import NearEnd, Unanswered
from labrunner.experiment.options.table import flag

MOST_CALLS: Final = 8
"""Of Ray's, under way at a worker: who it is, a batch there, a batch back. The wire carries all others."""
FIRST: Final = "introduce"
"""Asked before it is known whether the other end has the same wire."""
GOODBYE_S: Final = 2.0
"""How long a head may take to answer what it was asked last, before it counts as one that hangs."""
_NAMESPACE: Final = "labrunner"
_asking: Final[set[threading.Thread]] = set()
"""Those that ask the head something."""
T = TypeVar("T")


class NodeLost(Exception):
    """A worker, or its node, is gone or can't be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A node that Ray knows and that lives."""

    id: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


class ClusterPort(Protocol):
    """What of a cluster is asked for: this module's functions, or whoever stands in for a cluster."""

    async def connect(self, address: str) -> None:
        """Join the cluster."""
        ...

    async def list_nodes(self) -> tuple[RayNode, ...]:
        """The nodes that live. Raises NodeLost while the cluster's head does not answer."""
        ...

    def start_worker(self, node: RayNode) -> "RayWorker":
        """Have a worker's process on a node; it is there once it answers."""
        ...


async def connect(address: str) -> None:
    """Join the cluster as a driver; done once for a process. Raises InputError, SandboxFailed."""
    await asyncio.to_thread(_connect, address)


def _connect(address: str) -> None:
    _hush()
    try:
        import cryptography  # noqa: F401 - what secrets are sealed with
        import ray
    except ModuleNotFoundError as error:
        raise InputError(flag("executor"), INSTALL) from error
    if ray.is_initialized():
        return
    check_head(address)
    try:
        ray.init(
            address=address,
            namespace=_NAMESPACE,
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise SandboxFailed(NO_CLUSTER, refuse(address, _first_line(error))) from error


def _hush() -> None:
    """What Ray has to say of workers that die is told by us; it would write into people's output."""
    # Its own switch for this, `log_to_driver`, leaves what nodes say of dead workers, on standard output.
    # This one is read when it is loaded, and is for all that it would print there.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    # A head that can't be reached is given up after one round of tries (40 s), not 20.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
    logging.getLogger("ray._private.worker").addFilter(_is_worse_than_an_error)


def _is_worse_than_an_error(record: logging.LogRecord) -> bool:
    return record.levelno > logging.ERROR


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


async def list_nodes() -> tuple[RayNode, ...]:
    """The nodes that live. Raises NodeLost once it is clear that the cluster's head does not answer."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[RayNode, ...]] = loop.create_future()

    def ask() -> None:
        try:
            result = partial(_answer, answer, _list_nodes())
        except Exception as error:  # noqa: BLE001 - whoever asked has it raised
            result = partial(_refuse, answer, error)
        finally:
            _asking.discard(threading.current_thread())
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(result)

    # Without its head Ray says nothing for a minute, and a thread of a pool would be waited for at the end.
    thread = threading.Thread(target=ask, daemon=True)
    _asking.add(thread)
    thread.start()
    return await answer


def does_head_hang() -> bool:
    """Whether the head owes an answer when all is done: Ray, which takes its leave of it, waits for ever."""
    deadline = time.monotonic() + GOODBYE_S
    for thread in list(_asking):
        thread.join(max(0.0, deadline - time.monotonic()))
    return bool(_asking)


def _answer(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _refuse(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _list_nodes() -> tuple[RayNode, ...]:
    import ray

    try:
        found = ray.nodes()
    except (ray.exceptions.RayError, OSError, RuntimeError) as error:
        raise NodeLost(_first_line(error)) from error
    return tuple(
        RayNode(
            id=each["NodeID"],
            name=each["NodeName"] or each["NodeManagerAddress"],
            labels={str(name): str(value) for name, value in (each.get("Labels") or {}).items()},
        )
        for each in found
        if each["Alive"]
    )


class RayWorker:
    """A worker's process on one node, as this process holds it: it ends with us."""

    def __init__(self, actor: Any) -> None:  # noqa: ANN401 - Ray's own
        """Take the handle."""
        self._actor = actor
        self._is_killed = False
        self._waits: set[asyncio.Timeout] = set()
        self._wire = NearEnd(self._hear, self._take)

    async def call(self, name: str, *words: object) -> bytes:
        """Ask it something. Raises NodeLost, and SandboxFailed for what it says is wrong."""
        from labrunner.executor.cluster.tidings import NodeFailure, decode

        if name == FIRST:
            answer: bytes = await self._await(self._actor.introduce.remote())
        else:
            with self._on_the_wire():
                answer = await self._wire.ask(name, *words)
        if answer[:1] == b"-":
            broken = decode(answer[1:], NodeFailure)
            raise SandboxFailed(broken.reason, broken.message)
        return answer[1:]

    async def tell(self, name: str, *words: object) -> None:
        """Tell it something that it has no answer to."""
        with self._on_the_wire():
            await self._wire.ask(name, *words)

    async def stream(self, name: str, *words: object) -> AsyncIterator[bytes]:
        """Ask it something that has many answers."""
        async with aclosing(self._wire.stream(name, *words)) as answers:
            with self._on_the_wire():
                async for told in answers:
                    self._check()
                    yield told

    def kill(self) -> None:
        """End it, if it still lives; whoever waits for it hears at once that it is lost."""
        import ray

        self._is_killed = True
        for wait in self._waits:
            wait.reschedule(0)
        with suppress(ray.exceptions.RayError, RuntimeError, ValueError):
            ray.kill(self._actor, no_restart=True)

    @contextmanager
    def _on_the_wire(self) -> Iterator[None]:
        self._check()
        try:
            yield
        except Unanswered as error:
            raise NodeLost(str(error)) from error

    def _check(self) -> None:
        if self._is_killed:
            raise NodeLost("its worker was ended")

    async def _hear(self, batch: bytes) -> None:
        await self._await(self._actor.hear.remote(batch))

    async def _take(self) -> bytes:
        batch: bytes = await self._await(self._actor.take.remote())
        return batch

    async def _await(self, answer: Any) -> Any:  # noqa: ANN401 - Ray's own
        import ray

        self._check()
        try:
            async with asyncio.timeout(None) as wait:
                self._waits.add(wait)
                try:
                    return await answer
                finally:
                    self._waits.discard(wait)
        except ray.exceptions.RayError as error:
            raise NodeLost(_first_line(error)) from error
        except TimeoutError as error:
            raise NodeLost("its worker was ended") from error


def start_worker(node: RayNode) -> RayWorker:
    """Have a worker's process on a node; it is there once it answers."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from labrunner.executor.cluster.onnode.worker import Worker

    actor = ray.remote(Worker).options(
        num_cpus=0,
        max_restarts=0,
        max_task_retries=0,
        max_concurrency=MOST_CALLS,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node.id, soft=False),
    )
    return RayWorker(actor.remote(node.name))
