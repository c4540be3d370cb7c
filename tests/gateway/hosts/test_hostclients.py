"""Clients that people use, through the door to hosts."""

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from tests.kit.gateway.hostfront import TOKEN, HostFront, run_hosts
from tests.kit.gateway.sites import Site, find_address, make_certificate, make_context, run_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with run_site(tmp_path) as running:
        yield running


@asynccontextmanager
async def run_front(folder: Path, address: str) -> AsyncIterator[HostFront]:
    async with run_hosts(
        folder, ["site.test", address], {"site.test": [[address]]}, needs_token=True
    ) as front:
        yield front


def proxied(front: HostFront, certificate: Path) -> dict[str, str]:
    """The environment of an agent."""
    proxy = f"http://lab:{TOKEN}@127.0.0.1:{front.port}"
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    given = {name: proxy for word in ("HTTP_PROXY", "HTTPS_PROXY") for name in (word, word.lower())}
    trusted = dict.fromkeys(("SSL_CERT_FILE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"), str(certificate))
    return kept | given | trusted | {"NO_PROXY": "", "no_proxy": "", "NODE_USE_ENV_PROXY": "1"}


async def run(command: list[str], env: dict[str, str], cwd: Path | None = None) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-2, env=env, cwd=cwd)
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_urllib(tmp_path: Path, site: Site) -> None:
    code = "import urllib.request as u; print(u.urlopen('SCHEME://site.test/', b'12').read().decode())"
    async with run_front(tmp_path, site.address) as front:
        for scheme in ("https", "http"):
            command = [sys.executable, "-c", code.replace("SCHEME", scheme)]
            assert await run(command, proxied(front, site.certificate)) == (0, "hello 2\n")


async def test_httpx(tmp_path: Path, site: Site) -> None:
    proxy = "http://lab:{}@127.0.0.1:{}"
    async with run_front(tmp_path, site.address) as front:
        given, trusted = proxy.format(TOKEN, front.port), ssl.create_default_context(cafile=site.certificate)
        async with httpx.AsyncClient(proxy=given, verify=trusted, trust_env=False) as client:
            for url in ("https://site.test/", "http://site.test/", "https://site.test/"):
                assert (await client.post(url, content=b"123")).text == "hello 3"
            with pytest.raises(httpx.ProxyError, match="403"):
                await client.get("https://other.test/")


def has_proxy_of_environment() -> bool:
    """Node reads the variables since 22.21 and 24."""
    if shutil.which("node") is None:
        return False
    shown = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = map(int, shown.strip().removeprefix("v").split(".")[:2])
    return major >= 24 or (major == 22 and minor >= 21)


@pytest.mark.torture  # only because the Node of Debian and of many machines is older
@pytest.mark.skipif(not has_proxy_of_environment(), reason="needs a Node that reads HTTPS_PROXY")
async def test_the_fetch_of_node(tmp_path: Path, site: Site) -> None:
    code = (
        "fetch('SCHEME://site.test/', {method: 'POST', body: 'abcd'}).then(r => r.text()).then(console.log)"
    )
    async with run_front(tmp_path, site.address) as front:
        for scheme in ("https", "http"):
            command = ["node", "-e", code.replace("SCHEME", scheme)]
            assert await run(command, proxied(front, site.certificate)) == (0, "hello 4\n")


async def serve_git(root: Path, request: web.Request) -> web.Response:
    """What a web server does with `git http-backend`."""
    body = await request.read()
    env = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REMOTE_USER": "x",
        "REQUEST_METHOD": request.method,
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query_string,
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
    }
    process = await asyncio.create_subprocess_exec("git", "http-backend", stdin=-1, stdout=-1, env=env)
    out, _ = await process.communicate(body)
    head, _, content = out.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    status = int(fields.pop("Status", "200").split()[0])
    return web.Response(status=status, headers=fields, body=content)


@asynccontextmanager
async def run_git_site(root: Path) -> AsyncIterator[tuple[str, Path]]:
    address = find_address()
    certificate = make_certificate(root, address)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{tail:.*}", partial(serve_git, root))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address, 443, ssl_context=make_context(certificate)).start()
        except PermissionError:
            pytest.skip("this user may not listen on ports below 1024")
        yield address, certificate
    finally:
        await runner.cleanup()


def make_repository(root: Path) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    bare, work = root / "a.git", root / "work"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)
    subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], check=True)
    subprocess.run(["git", "init", "-q", "-b", "main", work], check=True)
    (work / "large").write_bytes(os.urandom(3 << 20))
    subprocess.run(["git", "-C", work, "add", "."], check=True)
    subprocess.run(["git", "-C", work, *author, "commit", "-qm", "first"], check=True)
    subprocess.run(["git", "-C", work, "push", "-q", bare, "main"], check=True)


async def test_git_clones_and_pushes_over_https(tmp_path: Path) -> None:
    root = tmp_path / "git"
    root.mkdir()
    make_repository(root)
    async with run_git_site(root) as (address, certificate), run_front(tmp_path, address) as front:
        env = proxied(front, certificate) | {"GIT_TERMINAL_PROMPT": "0", "HOME": str(tmp_path)}
        clone = tmp_path / "clone"
        assert await run(["git", "clone", "-q", "https://site.test/a.git", str(clone)], env) == (0, "")
        assert (clone / "large").read_bytes() == (root / "work" / "large").read_bytes()
        (clone / "more").write_bytes(os.urandom(2 << 20))
        author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "http.postBuffer=65536"]
        for command in (["add", "."], ["commit", "-qm", "second"], ["push", "-q", "origin", "main"]):
            assert await run(["git", *author, *command], env, clone) == (0, "")
        status, told = await run(["git", "clone", "-q", "https://other.test/a.git", "x"], env, tmp_path)
        assert (status, "403" in told) == (128, True)
        refused = [each.host for each in front.events() if each.end == "refused"]
    assert refused == ["other.test"]
    pushed = subprocess.run(
        ["git", "-C", root / "a.git", "log", "--format=%s"], capture_output=True, check=True
    )
    assert pushed.stdout == b"second\nfirst\n"
