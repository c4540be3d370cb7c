"""Greetings of TLS as a real client makes them, and some that none would."""

import ssl
from contextlib import suppress


def greet(name: str | None) -> bytes:
    """The first bytes of a client that wants to speak with a host."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def split_records(greeting: bytes, size: int) -> bytes:
    """The same greeting, in records of a few bytes each."""
    body = greeting[5:]
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(greeting[:3] + len(part).to_bytes(2, "big") + part for part in parts)


def make_hello(extensions: bytes) -> bytes:
    """A greeting by hand."""
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    body += len(extensions).to_bytes(2, "big") + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message


def make_extension(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body


def make_names(*names: bytes, kind: int = 0) -> bytes:
    entries = b"".join(bytes([kind]) + len(name).to_bytes(2, "big") + name for name in names)
    return make_extension(0, len(entries).to_bytes(2, "big") + entries)
