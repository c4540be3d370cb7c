import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from labrunner.trial.door_tokens import make_door_token
from tests.kit.gateway.hostfront import TOKEN, HostFront, run_hosts
from tests.kit.gateway.sites import Site, run_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with run_site(tmp_path) as running:
        yield running


def allow(site: Site, *more: str) -> list[str]:
    return ["site.test", "*.site.test", site.address, *more]


def names(site: Site) -> dict[str, list[list[str]]]:
    return {name: [[site.address]] for name in ("site.test", "www.site.test", "other.test")}


async def curl(front: HostFront, site: Site, *arguments: str, proxy: str = "") -> tuple[int, str]:
    """What curl says through the proxy: its exit status, and all that it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    process = await asyncio.create_subprocess_exec(
        *("curl", "-sS", "--max-time", "20", "--proxy", proxy or front.url, "--cacert"),
        *(str(site.certificate), *arguments),
        stdout=-1,
        stderr=-2,
        env=clean,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_https_and_http_of_an_allowed_host_pass_and_are_events(tmp_path: Path, site: Site) -> None:
    async with run_hosts(tmp_path, allow(site), names(site)) as front:
        for scheme in ("https", "http"):
            assert await curl(front, site, f"{scheme}://site.test/a?b=c", "-d", "12345") == (0, "hello 5")
        events = await front.wait_events(2)
    assert [(each.scheme, each.target, each.sni) for each in site.seen] == [
        ("https", "/a?b=c", "site.test"),
        ("http", "/a?b=c", None),
    ]
    assert [(each.way, each.host, each.port, each.address, each.end) for each in events] == [
        ("tunnel", "site.test", 443, site.address, "closed"),
        ("http", "site.test", 80, site.address, "closed"),
    ]
    assert all(each.sent > 100 and each.received > 100 for each in events)


async def test_what_is_not_in_the_list_is_refused_with_its_reason(tmp_path: Path, site: Site) -> None:
    refused = {
        "https://other.test/": "not_allowed",
        "http://other.test/": "not_allowed",
        "https://site.test:8443/": "port_not_allowed",
        "http://site.test:443/": "port_not_allowed",
        "https://127.0.0.1/": "address_not_allowed",
        "https://[::1]/": "address_not_allowed",
        "http://[::ffff:127.0.0.1]/": "address_not_allowed",
    }
    async with run_hosts(tmp_path, allow(site), names(site)) as front:
        for url in refused:
            status, told = await curl(front, site, url)
            assert "403" in told if url.startswith("https") else "not allowed" in told, told
            assert (status != 0) is url.startswith("https")
        assert [each.reason for each in front.events()] == list(refused.values())
        assert {each.end for each in front.events()} == {"refused"}
    assert site.seen == []


async def test_who_has_an_attempts_token_before_it_is_served_again_is_told_to_come_again(
    tmp_path: Path, site: Site
) -> None:
    async with run_hosts(tmp_path, allow(site), names(site), needs_token=True) as front:
        proxy = front.url.replace("://", f"://lab:{make_door_token('a-dispatch', 'agent')}@")
        status, told = await curl(front, site, "http://site.test/", "-w", " %{http_code}", proxy=proxy)
        assert (status, told[-3:]) == (0, "503")
        status, told = await curl(front, site, "https://site.test/", proxy=proxy)
        assert status != 0
        assert "503" in told
        assert front.events() == []
    assert site.seen == []


async def test_on_a_shared_listener_the_token_is_asked_for(tmp_path: Path, site: Site) -> None:
    async with run_hosts(tmp_path, allow(site), names(site), needs_token=True) as front:
        for url in ("https://site.test/", "http://site.test/"):
            for user in ("", "lab:wrong@", f"lab:{TOKEN[:-1]}@"):
                shown = ("-o", "/dev/null", "-w", "%{http_connect} %{http_code}")
                _, told = await curl(front, site, *shown, url, proxy=f"http://{user}127.0.0.1:{front.port}")
                assert "407" in told
            proxy = f"http://lab:{TOKEN}@127.0.0.1:{front.port}"
            assert await curl(front, site, url, proxy=proxy) == (0, "hello 0")
            assert await curl(front, site, url, "--proxy-anyauth", proxy=proxy) == (0, "hello 0")
    sent = [name for each in site.seen for name, _ in each.headers]
    assert "proxy-authorization" not in sent
