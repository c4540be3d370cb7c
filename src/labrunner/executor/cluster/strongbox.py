"""Secrets on their way to a node: sealed for one worker, so that nobody between can read them.

A worker makes a key pair when it starts, and keeps the private half in memory. What is sealed for its public
half (X25519, HKDF, ChaCha20-Poly1305) can be opened by it alone: Ray, its store and its logs see noise.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from labrunner.errors import InputError
from labrunner.experiment.options.table import flag

INSTALL: Final = "a Ray cluster needs what is not installed here: pip install 'labrunner[ray]'"
_PURPOSE: Final = b"labrunner secrets of a run"
_NONCE: Final = 12
_KEY: Final = 32


class Strongbox:
    """The key pair of one worker."""

    def __init__(self) -> None:
        """Make a new pair."""
        x25519, _ = _load()
        self._private = x25519.X25519PrivateKey.generate()

    @property
    def key(self) -> bytes:
        """The public half."""
        key: bytes = self._private.public_key().public_bytes_raw()
        return key

    def open(self, sealed: bytes) -> dict[str, str]:
        """What was sealed for this very worker. Raises ValueError for anything else."""
        x25519, _ = _load()
        theirs, nonce, data = sealed[:_KEY], sealed[_KEY : _KEY + _NONCE], sealed[_KEY + _NONCE :]
        shared = self._private.exchange(x25519.X25519PublicKey.from_public_bytes(theirs))
        try:
            plain = _cipher(shared, theirs, self.key).decrypt(nonce, data, _PURPOSE)
        except Exception as error:  # the library's own kind, which says nothing more
            raise ValueError("was not sealed for this worker") from error
        return msgspec.msgpack.decode(plain, type=dict[str, str])


def seal(secrets: Mapping[str, str], key: bytes) -> bytes:
    """Seal secrets for the worker that has the private half of a key."""
    x25519, _ = _load()
    own = x25519.X25519PrivateKey.generate()
    public: bytes = own.public_key().public_bytes_raw()
    shared = own.exchange(x25519.X25519PublicKey.from_public_bytes(key))
    nonce = os.urandom(_NONCE)
    plain = msgspec.msgpack.encode(dict(secrets))
    data: bytes = _cipher(shared, public, key).encrypt(nonce, plain, _PURPOSE)
    return public + nonce + data


def _cipher(shared: bytes, sender: bytes, receiver: bytes) -> Any:  # noqa: ANN401 - loaded where it is used
    _, make = _load()
    return make(shared, sender + receiver)


def _load() -> Any:  # noqa: ANN401 - a pair of a module and a function, of a library that may not be there
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ModuleNotFoundError as error:
        raise InputError(flag("executor"), INSTALL) from error

    def make(shared: bytes, salt: bytes) -> ChaCha20Poly1305:
        derived = HKDF(algorithm=SHA256(), length=32, salt=salt, info=_PURPOSE).derive(shared)
        return ChaCha20Poly1305(derived)

    return x25519, make
