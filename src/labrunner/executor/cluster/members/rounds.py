"""Asking the nodes of a run what is left there: all of them, or the next worker of one."""

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.executor.cluster.head import NO_CLUSTER
from labrunner.executor.cluster.members.headwatch import HeadLost
from labrunner.executor.cluster.members.node import Node
from labrunner.executor.cluster.members.nodes import Nodes
from labrunner.executor.cluster.rayport import NodeLost
from labrunner.sandbox.door import Survivor

DEATHS: Final = 5
"""So many workers of a node in a row may die over a question before it stays without an answer."""


Ask = Callable[[Node], Awaitable[None]]
Needs = Callable[[str], bool]
"""Whether a node of that name has to answer."""


async def ask_every(nodes: Nodes, ask: Ask, needs: Needs, *, insist: bool = False) -> None:
    """Ask every node that is there, one of each name; where a worker dies over it, the one that follows it.

    Who insists has nodes tried again that have to answer and can't be used at once. Raises SandboxFailed
    without any cluster, and where a node that has to answer can't; for who insists, where it says nothing.
    """
    try:
        await nodes.while_heard(partial(_ask_every, nodes, ask, needs, insist=insist))
    except HeadLost as lost:
        raise SandboxFailed(NO_CLUSTER, lost.advise()) from lost


async def _ask_every(nodes: Nodes, ask: Ask, needs: Needs, *, insist: bool) -> None:
    answered: set[str] = set()
    silent: list[str] = []
    for _ in range(DEATHS):
        await nodes.until_due(silent if insist else ())
        await nodes.join()
        unasked = [node for node in nodes.joined if node.id not in answered]
        for node in unasked:
            if await _ask_one(nodes, node, ask, needs):
                answered.add(node.id)
        silent = [name for name in _find_silent(nodes, answered) if needs(name)]
        if not silent or not (unasked or insist):
            return
    if insist:
        name = silent[0]
        why = nodes.problems.get(name, "no answer")
        told = f"node {name} does not say what lives there of this run: {why}"
        told += "; nothing is given up on a guess: try again, or end the node with `ray stop` there"
        raise SandboxFailed("node_silent", told)


async def _ask_one(nodes: Nodes, node: Node, ask: Ask, needs: Needs) -> bool:
    """Ask a node; whether it need not be asked again."""
    try:
        await ask(node)
    except NodeLost as lost:
        nodes.lose(node, str(lost))
        return False
    except SandboxFailed:  # its engine does not answer, say
        if needs(node.name):
            raise
    return True


def _find_silent(nodes: Nodes, answered: Collection[str]) -> list[str]:
    """Names of nodes that are there, of which none has answered: by their ids."""
    heard = {node.name for node in nodes.there if node.id in answered}
    return sorted({node.name for node in nodes.there} - heard)


async def ask_next(nodes: Nodes, name: str) -> tuple[Node, tuple[Survivor, ...]] | None:
    """A node's next worker that can say what lives there, and what does; None where Ray has none."""
    while nodes.is_there(name):
        if (node := nodes.find(name)) is None:
            await nodes.wait_for_change()
            continue
        try:
            left = await node.find_left()
        except NodeLost as lost:
            nodes.lose(node, str(lost))
        except SandboxFailed:  # its engine does not answer
            await nodes.wait_for_change()
        else:
            if not node.is_lost:  # nor has it been, since it answered
                return node, left
    return None
