from ipaddress import ip_address

import pytest

from labrunner.gateway.hosts.internet import is_public, read_address


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "64:ff9b::8.8.8.8", "2002:808:808::1"]
)
def test_addresses_of_the_internet_are_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
        *("100.64.0.1", "100.100.100.200", "169.254.169.254", "192.0.0.192", "198.18.0.1", "192.0.2.1"),
        *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
        *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1"),
        *("2001:db8::1", "3fff::1", "5f00::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"),
        *("64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "2002:7f00:1::"),
        *("2002:a9fe:a9fe::1", "2001:0:7f00:1::", "64:ff9b::168.63.129.16"),
    ],
)
def test_addresses_of_machines_networks_and_clouds_are_not(text: str) -> None:
    assert not is_public(ip_address(text))


def test_version_4_inside_version_6_is_version_4() -> None:
    assert str(read_address("::ffff:1.2.3.4")) == "1.2.3.4"
    assert str(read_address("fe80::1%eth0")) == "fe80::1"
