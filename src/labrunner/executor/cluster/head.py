"""Where a cluster's head is, and whether anything answers there.

Asked before Ray is, which tries an address at which nobody listens for many minutes.
"""

import os
import socket
from contextlib import closing
from typing import Final

from labrunner.errors import InputError, SandboxFailed
from labrunner.experiment.options.table import flag

NO_CLUSTER: Final = "no_cluster"
"""The reason of whoever fails because there is none, or none any more."""
AUTO: Final = "auto"
PATIENCE_S: Final = 10.0
"""How long a machine may take to accept a connection."""
_VARIABLE: Final = "RAY_ADDRESS"


def check_head(address: str) -> None:
    """Reach the port of the head that an address names. Raises InputError, SandboxFailed."""
    where = f"{flag('executor_address')} (executor.address)"
    if address == AUTO:
        where, address = _VARIABLE, os.environ.get(_VARIABLE, AUTO)
    if address in ("", AUTO):
        return
    host, port = _parse(address, where)
    try:
        with closing(socket.create_connection((host, port), timeout=PATIENCE_S)):
            pass
    except OSError as error:
        raise SandboxFailed(NO_CLUSTER, refuse(address, error.strerror or str(error))) from error


def refuse(address: str, why: str) -> str:
    """What to say where no cluster is."""
    told = f"no Ray cluster answers at {address}: {why}; start one with `ray start --head`, "
    return told + f"or say where it is with {flag('executor_address')} or {_VARIABLE}"


def _parse(address: str, where: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    # int() and isdigit() take digits of other scripts too.
    if not host or "/" in host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        right = f"the host:port of the cluster's head, as in 10.0.0.1:6379, or {AUTO}"
        raise InputError(where, f"found {address!r}, expected {right}")
    return host.strip("[]"), int(port)
