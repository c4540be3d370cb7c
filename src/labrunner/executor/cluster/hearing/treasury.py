"""The run's money and its connections to providers, lent to the gateways of nodes: the one place that counts.

Rules: what is lent is on disk before it is told. A gateway whose worker died keeps what it has until the next
worker of its node tells of it, or nobody does for a while: its connections come back then, and its money is
spent as far as nobody knows better.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from labrunner.errors import SandboxFailed, StoreError
from labrunner.executor.cluster.members.nodes import Nodes
from labrunner.executor.cluster.rayport import NodeLost, RayWorker
from labrunner.executor.cluster.tidings import decode, encode
from labrunner.executor.door import PREFLIGHT
from labrunner.experiment.options.table import find_option
from labrunner.experiment.run_policy import LOCAL
from labrunner.files.uninterrupted import see_out, wait_out
from labrunner.gateway.metering.fund import Amounts, Fund, Loan, Statement
from labrunner.gateway.metering.lentrecord import LentRecord, LentTo, read_lent, write_lent
from labrunner.gateway.process.control import Lend, Stated
from labrunner.gateway.process.introduction import find_place
from labrunner.gateway.process.refilling import sum_run
from labrunner.policy.budget import limits_of
from labrunner.trial.assignment import TrialContext

CONNECTIONS: Final = "connections"


@dataclass(slots=True, kw_only=True, eq=False)
class _Till:
    """A node's worker, which speaks for the gateway there."""

    node: str
    worker: RayWorker
    instance: str = ""
    """Which process that is; empty while there is none."""
    told: Lend | None = None
    is_due: asyncio.Event = field(default_factory=asyncio.Event)


class Treasury:
    """What the gateways of all nodes have together."""

    def __init__(self, context: TrialContext, nodes: Nodes) -> None:
        """Lend nothing yet."""
        self._cluster = nodes
        self._trials = context.trials_dir
        self._is_only_tried = context.run_id == PREFLIGHT
        self._caps = limits_of(context.experiment.policy.budget)
        self._is_needed = any(each.models for each in context.experiment.variants)
        self._money: Fund | None = None
        self._lent_before: Mapping[str, LentTo] = {}
        """Also of what is limited no more: it may be again."""
        self._places: dict[str, Fund] = {}
        self._nodes: dict[str, str] = {}
        """The node of each gateway that ever was."""
        self._lines: dict[str, _Till] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._saving = asyncio.Lock()
        self._saved: dict[str, dict[str, Decimal]] = {}

    @property
    def lends(self) -> tuple[str, ...]:
        """What of the run's money is lent to gateways: its names."""
        return tuple(self._caps) if self._is_needed else ()

    def refuse_others(self, count: int) -> None:
        """Attempts that an earlier owner left on this machine have a gateway that borrows nothing."""
        if count and self.lends:
            told = f"{count} attempts that go on on this machine spend of the run's budget, too"
            told += f": let them end first, with {find_option('executor').spell(LOCAL)}"
            raise SandboxFailed("budget", told)

    async def attend(self, node: str, worker: RayWorker) -> None:
        """Hear of a node's gateway from now on, by this worker: how it stands is known on return."""
        if not self._is_needed:
            return
        await self._open()
        said = worker.stream("statements")
        first = await anext(said, None)
        if first is None:
            raise NodeLost("its worker does not say what its gateway has")
        line = self._lines[node] = _Till(node=node, worker=worker)
        self._hear(line, decode(first, Stated))
        self._own(self._follow(line, said))

    async def close(self) -> None:
        """Hear no more."""
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        for task in list(self._tasks):
            await wait_out(task)
        await self._save(is_last=True)

    async def _open(self) -> None:
        """Begin with what was spent and lent before, once."""
        async with self._saving:
            if self._money is not None or not self._caps:
                return
            record, paid = await asyncio.to_thread(self._look)
            fund, self._lent_before = Fund(self._caps, paid), record.lent
            for instance, lent in record.lent.items():
                self._nodes[instance] = lent.node
                fund.hear(instance, lent.loan)
                fund.lose(instance)  # until it says itself how it stands
            self._money = fund

    def _look(self) -> tuple[LentRecord, Amounts]:
        if self._is_only_tried:  # what lies around is other runs
            return LentRecord(), {}
        return read_lent(self._folder), sum_run(self._trials).amounts

    @property
    def _folder(self) -> Path:
        return find_place(self._trials).folder

    async def _follow(self, line: _Till, said: AsyncIterator[bytes]) -> None:
        """Hear a gateway and tell it until either ends: its node would wait for ever with one alone."""
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._listen(line, said))
                both.create_task(self._tell(line))
        except* NodeLost as lost:
            self._give_up(line, str(lost.exceptions[0]))
        except* Exception as bugs:  # noqa: BLE001 - the attempts there go on with the next worker
            told = "lending to a node's gateway failed"
            asyncio.get_running_loop().call_exception_handler({"message": told, "exception": bugs})
            self._give_up(line, f"{told}, by a bug: {bugs.exceptions[0]!r}")
        for fund in self._funds():
            if line.instance in fund.loans:
                fund.forget_need(line.instance)
        self._spread()
        await self._await_next(line)

    async def _listen(self, line: _Till, said: AsyncIterator[bytes]) -> None:
        async for told in said:
            self._hear(line, decode(told, Stated))
        raise NodeLost("its worker says no more of what its gateway has")

    def _give_up(self, line: _Till, why: str) -> None:
        """A worker that does not speak for its gateway is gone; the next one of its node does."""
        node = self._cluster.find(line.node)
        if node is not None and node.worker is line.worker:
            self._cluster.lose(node, why)
        else:
            line.worker.kill()

    async def _await_next(self, line: _Till) -> None:
        """The next worker of its node tells of the gateway there; where none comes, there is none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._cluster.pace.rejoin_s):
                while self._lines.get(line.node) is line and not self._is_gone(line.node):
                    await self._cluster.wait_for_change()
        if self._lines.get(line.node) is line:
            del self._lines[line.node]
            self._end(line.instance, None)
            self._spread()

    def _is_gone(self, node: str) -> bool:
        """Whether no next worker of a node will come."""
        return self._is_closed or not self._cluster.is_there(node)

    def _hear(self, line: _Till, told: Stated) -> None:
        for instance, used in told.ended.items():
            self._end(instance, used)
        if line.instance != told.instance or line.told is None:
            others = (each for each, node in self._nodes.items() if node == line.node)
            for instance in [each for each in others if each not in (told.instance, *told.ended)]:
                self._end(instance, None)
        line.instance = told.instance
        if told.instance:
            self._nodes[told.instance] = line.node
            self._take(told)
        self._spread()

    def _take(self, told: Stated) -> None:
        if self._money is not None and told.money is not None:
            self._money.hear(told.instance, told.money)
        for place, statement in told.places.items():
            most = {CONNECTIONS: Decimal(told.most[place])}
            self._places.setdefault(place, Fund(most, is_even=True)).hear(told.instance, statement)

    def _end(self, instance: str, used: Amounts | None) -> None:
        """A gateway is no more; what it used, if anybody knows."""
        if self._money is not None and instance in self._money.loans:
            if used is None:
                self._money.lose(instance)
            else:
                self._money.settle(instance, used)
        for fund in self._places.values():
            if instance in fund.loans:
                fund.settle(instance, {})

    def _funds(self) -> list[Fund]:
        return [*self._places.values(), *([] if self._money is None else [self._money])]

    def _spread(self) -> None:
        """Lend what can be lent, and have everybody hear what is new."""
        for fund in self._funds():
            fund.dispense()
        for line in self._lines.values():
            line.is_due.set()

    async def _tell(self, line: _Till) -> None:
        """Tell a gateway how the funds stand, whenever that is other than it heard."""
        while True:
            await line.is_due.wait()
            line.is_due.clear()
            lend = self._write(line.instance)
            try:
                await self._save()
            except StoreError:  # what is not on disk is not lent; there may be room again
                await asyncio.sleep(self._cluster.pace.look_s)
                line.is_due.set()
                continue
            if lend != line.told:
                line.told = lend
                await line.worker.tell("lend", encode(lend))

    def _write(self, instance: str) -> Lend:
        places = {
            place: fund.write_terms(instance)
            for place, fund in self._places.items()
            if instance in fund.loans
        }
        if self._money is None or instance not in self._money.loans:
            return Lend(instance=instance, places=places)
        return Lend(instance=instance, money=self._money.write_terms(instance), places=places)

    async def _save(self, *, is_last: bool = False) -> None:
        """Have on disk what is lent; `is_last`: also what is lent no more."""
        async with self._saving:
            if self._money is None or not self._money.loans:
                return
            granted = {instance: dict(loan.granted) for instance, loan in self._money.loans.items()}
            if granted == self._saved and not is_last:
                return
            record = LentRecord(lent=self._write_loans(self._money))
            await see_out(asyncio.to_thread(write_lent, self._folder, record), lambda: None)
            self._saved = granted

    def _write_loans(self, fund: Fund) -> dict[str, LentTo]:
        nothing = LentTo(node="", loan=Statement(granted={}, returned={}, spent={}))
        return {
            instance: LentTo(
                node=self._nodes[instance],
                loan=_lay_over(self._lent_before.get(instance, nothing).loan, loan),
            )
            for instance, loan in fund.loans.items()
        }

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _lay_over(before: Statement, loan: Loan) -> Statement:
    """How a loan stands, as it is written."""
    return Statement(
        granted={**before.granted, **loan.granted},
        returned={**before.returned, **loan.returned},
        spent={**before.spent, **loan.spent},
    )
