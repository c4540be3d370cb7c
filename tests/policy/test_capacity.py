import pytest

from labrunner.policy.capacity import Host, decide_concurrency


@pytest.mark.parametrize(
    ("host", "cpus", "memory_mb", "planned", "expected"),
    [
        (Host(cpus=8, memory_mb=64_000), 1.0, 2048, 100, 8),
        (Host(cpus=8, memory_mb=64_000), 2.0, 2048, 100, 4),
        (Host(cpus=8, memory_mb=8_704), 1.0, 2048, 100, 4),
        (Host(cpus=8, memory_mb=64_000), 1.0, 2048, 3, 3),
        (Host(cpus=1, memory_mb=256), 4.0, 2048, 100, 1),
        (Host(cpus=8, memory_mb=64_000), 0.5, 2048, 100, 16),
    ],
)
def test_auto_is_what_cores_and_memory_allow(
    host: Host, cpus: float, memory_mb: int, planned: int, expected: int
) -> None:
    assert decide_concurrency(host, cpus=cpus, memory_mb=memory_mb, planned=planned) == expected
