import random

import pytest

from labrunner.gateway.hosts.clienthello import MAX_GREETING, Greeting, GreetingReader, NotTls
from tests.kit.gateway.greetings import greet, make_extension, make_hello, make_names, split_records


def read(data: bytes, size: int | None = None) -> Greeting | None:
    reader, step = GreetingReader(), size or len(data)
    for at in range(0, len(data), step):
        if (greeting := reader.take(data[at : at + step])) is not None:
            return greeting
    return None


@pytest.mark.parametrize("name", ["site.test", "a." * 100 + "b", None])
@pytest.mark.parametrize("record", [None, 1, 100])
@pytest.mark.parametrize("piece", [None, 1, 7])
def test_the_name_is_found_however_the_greeting_is_cut(
    name: str | None, record: int | None, piece: int | None
) -> None:
    greeting = greet(name)
    data = greeting if record is None else split_records(greeting, record)
    assert read(data + b"\x17\x03\x03early", piece) == Greeting(name=name, hides_name=False)
    assert read(data[:-1], piece) is None


def test_an_encrypted_part_is_told() -> None:
    hello = make_hello(make_names(b"outer.test") + make_extension(0xFE0D, b"sealed"))
    assert read(hello) == Greeting(name="outer.test", hides_name=True)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-x\r\n",
        b"\x80\x2e\x01\x03\x01",  # version 2 of its ancestor
        b"\x16\x02\x00",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        b"\x15\x03\x01\x00\x02\x02\x70",
        split_records(greet("site.test"), 50)[:110] + b"\x17\x03\x03\x00\x01x",
        make_hello(make_names(b"a.test") * 2),
        make_hello(make_names(b"a.test", b"b.test")),
        make_hello(make_names(b"a.test", kind=1)),
        make_hello(make_names(b"b\xc3\xbccher.test")),
        make_hello(make_extension(0, b"")),
        make_hello(b"\x00\x00\x00\xff"),
        make_hello(make_extension(0, b"\x00\x09\x00\x00\x06a.test??")),
        b"\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03",
    ],
)
def test_what_is_no_greeting_to_its_end_is_none(data: bytes) -> None:
    with pytest.raises(NotTls):
        read(data)
    with pytest.raises(NotTls):
        read(data, 1)


def test_a_greeting_without_end_is_none() -> None:
    endless = b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes((1 << 14) - 4)
    with pytest.raises(NotTls, match="longer than 32 KiB"):
        read(endless * 3, MAX_GREETING)


def test_noise_is_never_taken_for_a_name() -> None:
    noise, greeting = random.Random(1), greet("site.test")
    for _ in range(3000):
        spoilt = bytearray(greeting)
        for _ in range(noise.randint(1, 4)):
            spoilt[noise.randrange(len(spoilt))] = noise.randrange(256)
        try:
            found = read(bytes(spoilt))
        except NotTls:
            continue
        assert found is None or found.name is None or found.name.isascii()
