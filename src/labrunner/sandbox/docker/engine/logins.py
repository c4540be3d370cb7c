"""What `docker login` has stored for registries, read where the docker command keeps it.

Either in its `config.json`, or with a helper program (`docker-credential-NAME`) that is asked for it.
"""

import base64
import binascii
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import SandboxFailed

HUB: Final = "https://index.docker.io/v1/"
TOKEN: Final = "<token>"
HELPER_S: Final = 30.0


class Login(msgspec.Struct, frozen=True):
    """One registry's entry."""

    auth: str = ""
    identitytoken: str = ""


class Config(msgspec.Struct, frozen=True, rename={"helpers": "credHelpers", "store": "credsStore"}):
    """What concerns us of the docker command's settings."""

    auths: Mapping[str, Login] = {}
    helpers: Mapping[str, str] = {}
    store: str = ""


class Secret(msgspec.Struct, frozen=True, rename="pascal"):
    """A helper's answer."""

    username: str
    secret: str

    def login(self) -> dict[str, str]:
        """In the engine's words."""
        if self.username == TOKEN:
            return {"identitytoken": self.secret}
        return {"username": self.username, "password": self.secret}


def find_login(image: str) -> dict[str, str] | None:
    """What the engine needs to pull this image; None where nobody has logged in."""
    config, registry = read_config(), registry_of(image)
    helper = config.helpers.get(registry) or config.store
    if helper and (found := ask_helper(helper, registry)):
        return found
    login = config.auths.get(registry) or config.auths.get(f"https://{registry}")
    if login is None or not (login.auth or login.identitytoken):
        return None
    return {"identitytoken": login.identitytoken} if login.identitytoken else _unpack(login.auth, registry)


def registry_of(image: str) -> str:
    """The registry of an image's name, as logins are filed under it."""
    first, has_more, _ = image.partition("/")
    is_host = has_more and (first == "localhost" or "." in first or ":" in first)
    return first if is_host else HUB


def has_version(image: str) -> bool:
    """Whether a name says which image is meant: without tag or digest the engine would pull them all."""
    last = image.rpartition("/")[2]
    return ":" in last or "@" in last


def compose_login(login: Mapping[str, str], image: str) -> str:
    """A login as the engine takes it with a pull."""
    where = {} if "identitytoken" in login else {"serveraddress": registry_of(image)}
    return base64.urlsafe_b64encode(msgspec.json.encode({**login, **where})).decode()


def config_path() -> Path:
    """Where the docker command keeps its settings."""
    folder = os.environ.get("DOCKER_CONFIG")
    # Not Path.home(): that fails for users that no file knows, as containers have them.
    return Path(folder or os.path.expanduser("~/.docker")) / "config.json"  # noqa: PTH111


def read_config() -> Config:
    """Read the docker command's settings; one without a file has none."""
    path = config_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Config)
    except FileNotFoundError:
        return Config()
    except (OSError, ValueError) as error:
        raise SandboxFailed("registry_login", f"reading registry logins from {path}: {error}") from error


def ask_helper(name: str, registry: str) -> dict[str, str] | None:
    """Ask a helper program for a registry's login; None when it has none."""
    argv = [f"docker-credential-{name}", "get"]
    try:
        told = subprocess.run(
            argv, check=False, input=registry.encode(), capture_output=True, timeout=HELPER_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = f"asking {argv[0]}, which {config_path()} names, for the login of {registry}: {error}"
        raise SandboxFailed("registry_login", problem) from error
    if told.returncode != 0:
        return None
    try:
        return msgspec.json.decode(told.stdout, type=Secret).login()
    except ValueError as error:
        raise SandboxFailed("registry_login", f"{argv[0]} gave no login for {registry}: {error}") from error


def _unpack(auth: str, registry: str) -> dict[str, str]:
    try:
        user, has_more, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        user = has_more = password = ""
    if not has_more:
        problem = f"{config_path()}: auths.{registry}.auth is not user:password in base64; log in again"
        raise SandboxFailed("registry_login", problem)
    return {"username": user, "password": password}
