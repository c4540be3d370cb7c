import pytest

from labrunner.experiment.allowlist import AllowList, Way, parse_host, parse_line, parse_list

LIST = parse_list(
    [
        "example.com",
        "git.example.com:22",
        "*.Example.org.",
        "10.0.0.5:8000",
        "[2001:db8::1]:99",
        "::1",
        "bücher.example",
        "localhost:5000",
    ]
)


def is_allowed(lines: AllowList, host: str, port: int, way: Way = "tunnel") -> bool:
    return lines.find(parse_host(host), port, way) is not None


@pytest.mark.parametrize(
    ("host", "port", "way"),
    [
        ("example.com", 443, "tunnel"),
        ("example.com", 80, "http"),
        ("EXAMPLE.com.", 443, "tunnel"),
        ("git.example.com", 22, "tunnel"),
        ("git.example.com", 22, "http"),
        ("a.example.org", 443, "tunnel"),
        ("a.b.example.org", 80, "http"),
        ("10.0.0.5", 8000, "http"),
        ("[::ffff:10.0.0.5]", 8000, "http"),
        ("[2001:DB8:0::1]", 99, "tunnel"),
        ("[::1]", 443, "tunnel"),
        ("xn--bcher-kva.example", 443, "tunnel"),
        ("localhost", 5000, "http"),
        ("127.0.0.1", 5000, "http"),
        ("[::1]", 5000, "tunnel"),
    ],
)
def test_what_a_line_names_is_allowed_in_every_spelling(host: str, port: int, way: Way) -> None:
    assert is_allowed(LIST, host, port, way)


@pytest.mark.parametrize(
    ("host", "port", "way"),
    [
        ("example.com", 80, "tunnel"),
        ("example.com", 443, "http"),
        ("example.com", 22, "tunnel"),
        ("www.example.com", 443, "tunnel"),
        ("notexample.com", 443, "tunnel"),
        ("example.com.evil.net", 443, "tunnel"),
        ("git.example.com", 443, "tunnel"),
        ("example.org", 443, "tunnel"),
        ("evilexample.org", 443, "tunnel"),
        ("10.0.0.5", 443, "tunnel"),
        ("10.0.0.6", 8000, "http"),
        ("127.0.0.1", 80, "http"),
        ("127.0.0.2", 5000, "http"),
        ("a.localhost", 5000, "http"),
    ],
)
def test_nothing_else_is_allowed(host: str, port: int, way: Way) -> None:
    assert not is_allowed(LIST, host, port, way)


def test_a_line_with_the_port_says_more_than_one_without() -> None:
    lines = parse_list(["a.example", "a.example:443"])
    found = lines.find("a.example", 443, "tunnel")
    assert found is not None
    assert found.port == 443


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("https://example.com", "no address of a page"),
        ("user@example.com", "no address of a page"),
        ("10.0.0.0/8", "no network"),
        ("*", "network: full"),
        ("*.10.0.0.1", "before names only"),
        ("a.*.com", "a name is made of"),
        ("example.com:", "from 1 to 65535, found ''"),
        ("example.com:0", "from 1 to 65535"),
        ("example.com:99999", "from 1 to 65535"),
        ("example.com:٣", "from 1 to 65535"),
        ("example.com:https", "from 1 to 65535"),
        ("", "a name is made of"),
        (".", "a name is made of"),
        ("a..b", "a name is made of"),
        ("-a.b", "a name is made of"),
        ("a b", "a name is made of"),
        ("a%41.b", "a name is made of"),
        ("a\x00.b", "a name is made of"),
        ("a" * 64, "a name is made of"),
        ("a." * 127 + "b", "a name is made of"),
        ("127.1", "can't be allowed"),
        ("2130706433", "can't be allowed"),
        ("0x7f.0.0.1", "can't be allowed"),
        ("0x7f000001", "can't be allowed"),
        ("0177.0.0.1", "can't be allowed"),
        ("a.b.0x1", "can't be allowed"),
        ("[fe80::1%eth0]", "zone"),
        ("[::1", "can't be allowed"),
        ("::1]", "can't be allowed"),
        ("[10.0.0.1]", "can't be allowed"),
        ("ab\ufffd.example", "no name of DNS"),
    ],
)
def test_what_names_no_host_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(ValueError, match="can't be allowed") as caught:
        parse_line(text)
    assert told in str(caught.value)
