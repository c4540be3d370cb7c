"""A real head that dies, or hangs, while a node is tried out: the command ends in order, and soon."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labrunner.executor.cluster.members.node import NODE_PACE
from tests.kit.cli.calling import LAB, environment, squeeze
from tests.kit.executor.rayclusters import RayCluster, running_nodes
from tests.kit.waiting import wait_for

pytestmark = pytest.mark.timeout(400)  # a cluster is a dozen processes of Python

RAY_ENDS_US_S = 60.0
TASK = """
import time
from labrunner import Task, task
from labrunner.dataset import Sample
from labrunner.scorer import includes
from labrunner.solver import generate

if "ray::" in open("/proc/self/comm").read():
    open("{seen}", "w").close()
    time.sleep(3600)

@task
def slow():
    return Task(dataset=[Sample(input="a", target="a")], solver=generate(), scorer=includes())
"""
"""Is never made on a node."""


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    with running_nodes("n1", "n2") as made:  # without its head a node goes on
        yield made


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_run_whose_head_is_gone_at_preflight_is_refused_before_ray_ends_it(
    how: signal.Signals, tmp_path: Path, cluster: RayCluster
) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "slow.py").write_text(TASK.format(seen=seen))
    where = ("--executor", "ray", "--executor-address", cluster.address)
    run = subprocess.Popen(
        [LAB, "run", "slow.py", "--model", "mock/echo", *where],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(seen.exists, timeout=100)
        (head,) = cluster.nodes["n1"].pids("gcs_server")
        os.kill(head, how)
        began = time.monotonic()
        _, said = run.communicate(timeout=100)
    finally:
        run.kill()
    assert run.returncode == 2, said
    assert f"the cluster's head has not answered for {NODE_PACE.head_s:.0f} s" in squeeze(said)
    assert time.monotonic() - began < RAY_ENDS_US_S
    assert not list((tmp_path / ".lab").glob("runs/*"))
