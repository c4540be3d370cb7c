"""A real node that was killed and started again under its name: Ray lists both for a while."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.cli.calling import lab, squeeze, write_experiment
from tests.kit.executor.rayclusters import RayCluster, running_nodes

pytestmark = pytest.mark.timeout(400)  # a cluster is a dozen processes of Python

SLOW_TO_NOTICE = {"RAY_health_check_failure_threshold": "12"}
"""A busy machine takes longer to start a node than Ray, else, to find that one is dead."""


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    labels = {"n1": {}, "n2": {"used": "y"}}
    with running_nodes(*labels, labels=labels.__getitem__, env=SLOW_TO_NOTICE) as made:
        yield made


def test_a_run_begins_on_a_node_that_was_just_started_again(tmp_path: Path, cluster: RayCluster) -> None:
    folder = write_experiment(tmp_path / "e", tasks=2)
    cluster.nodes["n2"].stop()
    cluster.start("n2", labels={"used": "y"})
    where = ("--executor", "ray", "--executor-address", cluster.address)
    done = lab("run", *where, "--set", "executor.labels={used: y}", cwd=folder, timeout=300)
    assert done.code == 0, done.err
    assert "2 nodes of the cluster have this name" in squeeze(done.err)
