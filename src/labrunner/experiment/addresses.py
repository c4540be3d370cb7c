"""Addresses without the user and password that people write into them: what is recorded of such an address.

Rule: a password is in no record. Whoever goes on with a run gives the address again, in the environment.
"""

import os
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from labrunner.errors import InputError
from labrunner.experiment.options.table import find_option

HIDDEN: Final = "***"
_CREDENTIALS: Final = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#@]*(?:@[^\s/?#@]*)*@")


def hide_credentials(text: str) -> str:
    """A text whose addresses show `***@` where user and password stood."""
    return _CREDENTIALS.sub(rf"\g<scheme>{HIDDEN}@", text)


def find_password(address: str | None) -> str | None:
    """The password of an address, as it is sent."""
    try:
        password = urlsplit(address).password if address else None
    except ValueError:
        return None
    return unquote(password) if password else None


def reveal_address(
    address: str | None, provider: str, environment: Mapping[str, str] = os.environ
) -> str | None:
    """An address to be used: one whose credentials were hidden is looked for in the environment."""
    if address is None or f"//{HIDDEN}@" not in address:
        return address
    names = (
        find_option("model_base_url").variable,
        f"{re.sub(r'[^A-Za-z0-9]', '_', provider).upper()}_BASE_URL",
    )
    for name in names:
        given = environment.get(name, "")
        if hide_credentials(given) == address:
            return given
    told = f"{address} was given with a password, which is not recorded; set {names[0]} to the whole address"
    raise InputError("model", told)
