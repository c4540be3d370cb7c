from datetime import UTC, datetime

import pytest

from labrunner.gateway.serving.headers import (
    Headers,
    choose_for_client,
    choose_for_provider,
    find_tokens,
    read_retry_after,
)

NOW = datetime(2026, 1, 5, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([("retry-after", "7")], 7.0),
        ([("retry-after", "1.5")], 1.5),
        ([("retry-after-ms", "250"), ("retry-after", "9")], 0.25),
        ([("retry-after", "Mon, 05 Jan 2026 12:00:30 GMT")], 30.0),
        ([("retry-after", "Mon, 05 Jan 2026 11:00:00 GMT")], 0.0),
        ([("retry-after", "soon")], None),
        ([("retry-after", "-1")], None),
        ([("retry-after", "nan")], None),
        ([], None),
    ],
)
def test_how_long_to_wait_is_read_in_every_form(headers: Headers, seconds: float | None) -> None:
    assert read_retry_after(headers, NOW) == seconds


def test_a_key_is_found_wherever_clients_put_it() -> None:
    headers = [("authorization", "Bearer a"), ("x-api-key", "b"), ("x-goog-api-key", "c"), ("other", "d")]
    assert find_tokens(headers, [("key", "e"), ("x", "f")]) == ["a", "b", "c", "e"]


def test_only_known_headers_reach_a_provider_with_the_key_of_the_dialect() -> None:
    given = [
        ("host", "127.0.0.1"),
        ("authorization", "Bearer token"),
        ("x-api-key", "token"),
        ("content-type", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("x-forwarded-for", "1.2.3.4"),
        ("openai-organization", "another"),
        ("transfer-encoding", "chunked"),
    ]
    assert list(choose_for_provider(given, "anthropic", "key", "gzip")) == [
        ("content-type", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("accept-encoding", "gzip"),
        ("x-api-key", "key"),
    ]
    assert list(choose_for_provider([], "openai", None, "identity")) == [("accept-encoding", "identity")]


def test_what_belongs_to_a_connection_does_not_reach_the_client() -> None:
    given = [
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "1"),
        ("transfer-encoding", "chunked"),
        ("content-length", "5"),
        ("content-encoding", "gzip"),
        ("location", "https://elsewhere"),
        ("retry-after", "3"),
    ]
    kept = [("content-length", "5"), ("content-encoding", "gzip"), ("retry-after", "3")]
    assert list(choose_for_client(given, is_rewritten=False)) == kept
    assert list(choose_for_client(given, is_rewritten=True)) == [("retry-after", "3")]
