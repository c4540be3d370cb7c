"""Addresses that anybody on the internet may reach: only those are reached by name.

Rule: an address that carries another one inside is judged by that one.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from labrunner.experiment.allowlist import Address

_UNICAST: Final = IPv6Network("2000::/3")
"""All that is given out of version 6."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_EXAMPLES: Final = IPv6Network("3fff::/20")
_SPECIAL: Final = tuple(map(IPv4Network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24")))
"""Where clouds tell secrets of a machine, and what not every version of Python knows to be no internet."""
_LOW: Final = (1 << 32) - 1


def read_address(text: str) -> Address:
    """An address as the system writes it; 4 inside of version 6 is version 4. Raises ValueError."""
    address = ip_address(text.partition("%")[0])
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def is_public(address: Address) -> bool:
    """Whether an address belongs to nobody's own network, machine or cloud."""
    if isinstance(address, IPv6Address):
        return _is_public_6(address)
    is_special = address.is_multicast or any(address in network for network in _SPECIAL)
    return address.is_global and not is_special


def _is_public_6(address: IPv6Address) -> bool:
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & _LOW))
    inner = address.ipv4_mapped or address.sixtofour
    if inner is not None:
        return is_public(inner)
    return address in _UNICAST and address.is_global and address not in _EXAMPLES
