import pytest

from labrunner.gateway.hosts.destination import parse_absolute, parse_authority


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Example.COM:443", "example.com:443"),
        ("example.com.:443", "example.com:443"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("[::1]:443", "[::1]:443"),
        ("[0:0::1]:443", "[::1]:443"),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
        ("xn--bcher-kva.test:443", "xn--bcher-kva.test:443"),
    ],
)
def test_a_tunnel_has_a_host_and_a_port(text: str, shown: str) -> None:
    assert str(parse_authority(text, "tunnel")) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("example.com", "example.com:", "example.com:0", "example.com:65536", "example.com:+443", ":443"),
        *("example.com:443:443", "::1:443", "[::1]", "[::1]443", "[::1", "[fe80::1%25eth0]:443"),
        *("user@example.com:443", "example.com/:443", "http://example.com:443", "exa mple.com:443"),
        *("exa%6dple.com:443", "example.com%00:443", "*:443", "*.example.com:443", "0x7f.1:443"),
        *("127.1:443", "2130706433:443", "017700000001:443", "a..b:443", "example.com#:443", "\\:443"),
        *("example.com:443?", "[::1].example.com:443", "[example.com]:443", "[127.0.0.1]:443"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_authority(text, "tunnel")


@pytest.mark.parametrize(
    ("text", "authority", "path"),
    [
        ("http://example.com/a?b=c", "example.com", "/a?b=c"),
        ("HTTP://EXAMPLE.com:80", "example.com", "/"),
        ("http://example.com:8080?q", "example.com:8080", "/?q"),
        ("http://[::1]/", "[::1]", "/"),
        ("http://example.com//other.com/", "example.com", "//other.com/"),
    ],
)
def test_an_address_of_http_has_a_host_and_a_path(text: str, authority: str, path: str) -> None:
    target = parse_absolute(text)
    assert (target.authority, target.path) == (authority, path)


@pytest.mark.parametrize(
    "text",
    [
        *("/", "*", "example.com:80", "https://example.com/", "ftp://example.com/", "http:/example.com"),
        *("http://", "http:///a", "http://user:pw@example.com/", "http://a@b@example.com/"),
        *("http://example.com/#x", "http://example.com#@other.com/", "http://example.com:80:80/"),
        *("http://example.com:x/", "http://ex%61mple.com/", "//example.com/", "http://example.com\\@o.com/"),
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_absolute(text)
