"""A runner of its own: carries out one attempt that is described on standard input, and tells how it ended.

Started by tests that kill the runner, or that need one that belongs to another user.
"""

import asyncio
import json
import sys
from pathlib import Path

from labrunner.experiment.resolved import Network, SandboxPlan
from labrunner.sandbox.door import AttemptFolders, Phase, SandboxSpec
from labrunner.sandbox.processes import warden_client
from labrunner.sandbox.registry import make


async def main() -> None:
    order = json.load(sys.stdin)
    warden_client.GONE_WITHIN_S = order.get("patience_s", warden_client.GONE_WITHIN_S)
    maker = make(order["kind"])
    folders = AttemptFolders(root=Path(order["root"]))
    agent_dir = Path(order["agent_dir"]) if order.get("agent_dir") else None
    python = maker.guest_paths(folders, agent_dir).python
    spec = SandboxSpec(folders=folders, plan=SandboxPlan(**order["plan"]), agent_dir=agent_dir)
    phases = [
        Phase(
            name=name,
            argv=tuple(arg.replace("{python}", python) for arg in order[name]),
            env={"PATH": "/usr/bin:/bin", **order.get("env", {})},
            timeout_s=60,
            network=Network(mode=order.get("network", "none")),
        )
        for name in ("agent", "grader")
        if name in order
    ]
    async with maker.open(spec) as sandbox:
        run = await sandbox.run_agent(None, phases[0])
        assert run.agent is not None
        statuses = [run.agent.exit_status]
        for phase in phases[1:]:
            statuses.append((await sandbox.run_grader(phase)).exit_status)
    checks = await maker.preflight(spec.plan)
    print(
        json.dumps(
            {"statuses": statuses, "limits": dict(sandbox.limits), "checks": [c.message for c in checks]}
        )
    )


asyncio.run(main())
