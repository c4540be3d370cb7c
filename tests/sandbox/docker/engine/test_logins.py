"""Logins for registries, as the docker command stores them."""

import base64
import json
from pathlib import Path

import pytest

from labrunner.errors import SandboxFailed
from labrunner.sandbox.docker.engine.logins import HUB, compose_login, find_login, registry_of


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


def pack(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def add_helper(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "docker-credential-safe"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("debian:12", HUB),
        ("ann/tool", HUB),
        ("reg.example/tool:1", "reg.example"),
        ("localhost/tool", "localhost"),
        ("127.0.0.1:5000/a/b@sha256:1", "127.0.0.1:5000"),
    ],
)
def test_a_name_tells_its_registry(image: str, registry: str) -> None:
    assert registry_of(image) == registry


@pytest.mark.parametrize("image", ["debian:12", "ann/tool", "reg.example/tool:1"])
def test_a_login_says_to_which_registry_it_belongs(image: str) -> None:
    sent = json.loads(base64.urlsafe_b64decode(compose_login({"username": "ann", "password": "s"}, image)))
    assert sent == {"username": "ann", "password": "s", "serveraddress": registry_of(image)}


def test_a_token_belongs_to_whoever_it_is_sent_to() -> None:
    sent = compose_login({"identitytoken": "it"}, "reg.example/tool")
    assert json.loads(base64.urlsafe_b64decode(sent)) == {"identitytoken": "it"}


def test_without_settings_nobody_is_logged_in() -> None:
    assert find_login("reg.example/tool") is None


def test_a_login_of_another_registry_is_not_used(settings: Path) -> None:
    settings.write_text(json.dumps({"auths": {"other.example": {"auth": pack("ann:secret")}}}))
    assert find_login("reg.example/tool") is None


def test_a_password_may_have_colons(settings: Path) -> None:
    settings.write_text(json.dumps({"auths": {HUB: {"auth": pack("ann:se:cret")}}, "proxies": {}}))
    assert find_login("ann/tool") == {"username": "ann", "password": "se:cret"}


def test_an_identity_token_goes_before_a_password(settings: Path) -> None:
    entry = {"auth": pack("ann:secret"), "identitytoken": "it"}
    settings.write_text(json.dumps({"auths": {"reg.example": entry}}))
    assert find_login("reg.example/tool") == {"identitytoken": "it"}


def test_a_helper_is_asked_for_its_registry(
    settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.write_text(json.dumps({"credHelpers": {"reg.example": "safe"}}))
    script = """read -r asked; echo '{"ServerURL":"'$asked'","Username":"ann","Secret":"of '$asked'"}'"""
    add_helper(tmp_path, script, monkeypatch)
    assert find_login("reg.example/tool") == {"username": "ann", "password": "of reg.example"}
    assert find_login("other.example/tool") is None


def test_a_store_without_the_login_leaves_it_to_the_settings(
    settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auths = {"reg.example": {"auth": pack("ann:secret")}}
    settings.write_text(json.dumps({"credsStore": "safe", "auths": auths}))
    add_helper(tmp_path, "echo credentials not found in native keychain; exit 1", monkeypatch)
    assert find_login("reg.example/tool") == {"username": "ann", "password": "secret"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "reading registry logins from .*config.json"),
        (
            '{"auths": {"reg.example": {"auth": "bm90aGluZw=="}}}',
            "auths.reg.example.auth is not",
        ),
        ('{"auths": {"reg.example": {"auth": "%"}}}', "log in again"),
        ('{"credsStore": "nobody-has-this"}', "docker-credential-nobody-has-this"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings: Path, text: str, told: str) -> None:
    settings.write_text(text)
    with pytest.raises(SandboxFailed, match=told):
        find_login("reg.example/tool")
