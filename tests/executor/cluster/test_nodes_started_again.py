"""A real node that was killed and started again under its name: Ray lists both for a while."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.cli.calling import lab, squeeze, write_experiment
from tests.kit.executor.rayclusters import RayCluster, running_nodes

pytestmark = pytest.mark.timeout(400)  # a cluster is a dozen processes of Python


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    with running_nodes("n1", "n2", labels=lambda name: {"used": "y"} if name == "n2" else {}) as made:
        yield made


def test_a_run_begins_on_a_node_that_was_just_started_again(tmp_path: Path, cluster: RayCluster) -> None:
    folder = write_experiment(tmp_path / "e", tasks=2)
    cluster.nodes["n2"].stop()
    cluster.start("n2", labels={"used": "y"})
    where = ("--executor", "ray", "--executor-address", cluster.address)
    done = lab("run", *where, "--set", "executor.labels={used: y}", cwd=folder, timeout=300)
    assert done.code == 0, done.err
    assert "2 nodes of the cluster have this name" in squeeze(done.err)
