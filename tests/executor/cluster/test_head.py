"""What is said of a cluster that is not there: soon, once, and with what would be right."""

import socket
import time
from pathlib import Path

import pytest

from labrunner.errors import InputError, SandboxFailed
from labrunner.executor.cluster.head import check_head
from tests.kit.cli.calling import lab, write_experiment


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "ray://head:10001", "head:70000", "head:٣"])
def test_what_is_no_address_is_refused_by_name(address: str) -> None:
    with pytest.raises(InputError, match=r"--executor-address \(executor.address\): found .* 10.0.0.1:6379"):
        check_head(address)


def test_an_address_that_comes_from_the_environment_is_refused_by_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(InputError, match="RAY_ADDRESS: found"):
        check_head("auto")


def test_an_address_at_which_nobody_listens_is_no_cluster(closed_port: int) -> None:
    with pytest.raises(
        SandboxFailed, match=f"no Ray cluster answers at 127.0.0.1:{closed_port}: Connection ref"
    ):
        check_head(f"127.0.0.1:{closed_port}")


def test_an_address_at_which_something_listens_is_left_to_ray() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_head(f"127.0.0.1:{server.getsockname()[1]}")


def test_a_run_for_a_cluster_that_is_not_there_ends_soon_with_one_sentence(
    tmp_path: Path, closed_port: int
) -> None:
    pytest.importorskip("ray", reason="needs labrunner[ray]")
    folder = write_experiment(tmp_path / "e", tasks=1)
    began = time.monotonic()
    done = lab("run", "--executor", "ray", "--executor-address", f"127.0.0.1:{closed_port}", cwd=folder)
    assert (done.code, time.monotonic() - began < 30) == (2, True), done.err
    assert done.err.count(f"no Ray cluster answers at 127.0.0.1:{closed_port}") == 1
    assert "[W" not in done.err
    assert not list((folder / ".lab").glob("runs/*"))
