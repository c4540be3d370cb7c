"""Secrets that travel sealed."""

import pytest

from labrunner.executor.cluster.strongbox import Strongbox, seal

pytest.importorskip("cryptography", reason="needs labrunner[ray]")
SECRETS = {"KEY": "a-very-secret-value"}


def test_what_is_sealed_for_a_worker_is_read_by_it_alone() -> None:
    box, other = Strongbox(), Strongbox()
    sealed = seal(SECRETS, box.key)
    assert b"a-very-secret-value" not in sealed
    assert box.open(sealed) == SECRETS
    with pytest.raises(ValueError, match="was not sealed for this worker"):
        other.open(sealed)


@pytest.mark.parametrize("at", [0, 31, 32, 43, 44, -1])
def test_what_was_changed_on_the_way_is_refused(at: int) -> None:
    box = Strongbox()
    sealed = bytearray(seal(SECRETS, box.key))
    sealed[at] ^= 1
    with pytest.raises(ValueError, match="was not sealed for this worker"):
        box.open(bytes(sealed))


def test_the_same_secrets_are_never_sealed_alike() -> None:
    box = Strongbox()
    assert seal(SECRETS, box.key) != seal(SECRETS, box.key)
