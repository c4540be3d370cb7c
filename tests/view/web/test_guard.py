"""Who may ask, decided from words alone."""

import pytest

from labrunner.view.web.guard import Guard, Request, name_in

DATA = {"method": "GET", "host": "127.0.0.1:7575", "is_data": True}


def judge(guard: Guard, **changes: object) -> int | None:
    refused = guard.judge(Request(**{**DATA, **changes}))  # type: ignore[arg-type]  # words of a request
    return None if refused is None else refused.status


@pytest.mark.parametrize("host", ["127.0.0.1:7575", "localhost:9000", "LOCALHOST", "[::1]:7575"])
def test_a_request_by_one_of_our_names_is_heard_whatever_port_a_tunnel_gave_it(host: str) -> None:
    assert judge(Guard(), host=host) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example:7575", "127.0.0.1.evil.example", "", "localhost@evil.example", "localhost:x", "10.0.0.7"],
)
def test_a_name_that_is_not_ours_gets_nothing_not_even_the_shell(host: str) -> None:
    assert judge(Guard(), host=host) == 421
    assert judge(Guard(), host=host, is_data=False, mode="navigate") == 421


def test_on_every_address_numbers_are_heard_and_strange_names_are_not() -> None:
    guard = Guard(takes_any_address=True, token="t" * 16)
    assert judge(guard, host="10.0.0.7:7575", cookie=guard.session) is None
    assert judge(guard, host="evil.example:7575", cookie=guard.session) == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_there_is_nothing_but_get(method: str) -> None:
    assert judge(Guard(), method=method) == 405


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_gets_no_data_even_when_it_is_opened_as_a_page(site: str) -> None:
    assert judge(Guard(), site=site) == 403
    assert judge(Guard(), site=site, mode="navigate") == 403
    assert judge(Guard(), site=site, is_data=False, mode="no-cors") == 403
    assert judge(Guard(), site=site, is_data=False, mode="navigate") is None


def test_an_origin_that_is_not_our_own_gets_nothing() -> None:
    assert judge(Guard(), origin="http://127.0.0.1:7575") is None
    assert judge(Guard(), origin="http://127.0.0.1:3000") == 403
    assert judge(Guard(), origin="null") == 403


def test_with_a_token_data_is_given_for_the_cookie_alone() -> None:
    guard = Guard(token="a" * 16)
    assert judge(guard) == 401
    assert judge(guard, cookie="a" * 16) == 401
    assert judge(guard, cookie=guard.session) is None
    assert judge(guard, is_data=False) is None
    assert guard.accepts("a" * 16)
    assert not guard.accepts("a" * 15)
    assert not Guard().accepts("")


def test_the_name_in_a_host_header_is_read_without_its_port() -> None:
    assert name_in("[::1]:80") == "::1"
    assert name_in("a.b:1") == "a.b"
    assert name_in("a/b") == ""
