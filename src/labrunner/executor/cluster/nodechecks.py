"""What is found out of a cluster before anything is spent: of each node."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from labrunner.errors import SandboxFailed
from labrunner.executor.cluster.members.node import Node
from labrunner.executor.cluster.members.nodes import Nodes
from labrunner.executor.cluster.rayport import NodeLost, RayNode
from labrunner.sandbox.door import Check
from labrunner.trial.assignment import TrialContext

NAMED: Final = 3
"""Nodes that a line of progress names."""


async def examine_node(node: Node) -> list[Check]:
    """Ask a node whether attempts can be carried out there."""
    try:
        return [replace(check, node=node.name) for check in await node.preflight()]
    except NodeLost as lost:
        told = f"its worker is gone: {node.loss or lost}"
        return [Check(name="node", passed=False, message=told, node=node.name)]
    except SandboxFailed as failure:
        return [Check(name="node", passed=False, message=str(failure), node=node.name)]


def name_namesakes(nodes: Iterable[RayNode]) -> list[Check]:
    """Nodes that have one name: what lives on one of them is looked for by that, so one is used at a time.

    A warning: Ray may still list one that was started again since.
    """
    count = Counter(node.name for node in nodes)
    told = (
        "{} nodes of the cluster have this name, and only one of them is used at a time; start each with a "
    )
    told += "name of its own (ray start --node-name NAME), unless it was just started again"
    return [
        Check(name="node name", passed=False, severity="warning", message=told.format(many), node=name)
        for name, many in sorted(count.items())
        if many > 1
    ]


def tell_unused(nodes: Nodes) -> str:
    """Name the nodes that are not used while others are, on the line that shows progress; empty for none."""
    names = [name for name in sorted(nodes.problems) if nodes.is_there(name)]
    if not names:
        return ""
    told = f"{len(names)} of {nodes.count} nodes not used: {', '.join(names[:NAMED])}"
    return told + (", …" if len(names) > NAMED else "")


def tell_nobody(context: TrialContext) -> Check:
    """Say that there is no node to be used."""
    labels = context.experiment.policy.executor.labels
    told = ", ".join(f"{name}={value}" for name, value in labels.items())
    message = f"no node of the cluster has the labels {told}" if labels else "the cluster has no node"
    return Check(name="cluster", passed=False, message=message)
