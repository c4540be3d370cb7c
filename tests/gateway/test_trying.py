"""One real request to a provider before a run, and what is said of it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from labrunner.gateway.dialects.speech import Dialect
from labrunner.gateway.process.control import ToldModel, ToldPrice
from labrunner.gateway.trying import TriedModel, try_generating, try_model
from tests.kit.gateway.provider import KEY, Fail, Provider, run_provider
from tests.kit.gateway.sites import run_site


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with run_provider() as running:
        yield running


async def attempt(url: str, dialect: Dialect = "openai", **changes: Any) -> TriedModel:
    told: dict[str, Any] = {"name": "m", "dialect": dialect, "base_url": url, "key": KEY} | changes
    return await try_model(ToldModel(**told), "THE_KEY" if told["key"] else None)


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
async def test_a_provider_that_answers_is_told_with_its_models_and_how_long_it_took(
    provider: Provider, dialect: Dialect
) -> None:
    tried = await attempt(provider.url, dialect)
    assert tried.is_well
    assert tried.told.startswith(f"{provider.url} answered in ")
    assert tried.told.endswith(" ms: m")
    (got,) = provider.got
    assert got.path.endswith("/models")
    assert any(value.endswith(KEY) for value in got.headers.values())


@pytest.mark.parametrize(
    ("status", "key", "is_well", "told"),
    [
        (401, KEY, False, "it refused the key in THE_KEY (401); put the right one there"),
        (403, KEY, False, "it refused the key in THE_KEY (403); put the right one there"),
        (401, None, False, "it wants a key (401); name the variable that holds one: `key`"),
        (529, KEY, False, "with 529, as if it were down or overloaded"),
        (429, KEY, False, "with 429, as if it were down or overloaded"),
        (404, KEY, True, "it lists no models (404): it is there, and whether it takes the key is not known"),
    ],
)
async def test_what_a_provider_says_is_told_in_words(
    provider: Provider, status: int, key: str | None, is_well: bool, told: str
) -> None:
    provider.plan.append(Fail(status=status))
    tried = await attempt(provider.url, key=key)
    assert (tried.is_well, tried.told.partition(" ms: ")[2]) == (is_well, told)
    assert KEY not in tried.told
    assert len(provider.got) == 1, "nothing is tried again"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:1/v1", "nothing listens there; is the server started?"),
        ("http://nowhere.invalid/v1", "nobody knows this host ("),
    ],
)
async def test_nobody_there_is_told_in_words(url: str, told: str) -> None:
    tried = await attempt(url)
    assert not tried.is_well
    assert tried.told.startswith(f"{url}: {told}")


async def test_a_plain_server_behind_https_is_told(provider: Provider) -> None:
    url = provider.url.replace("http:", "https:")
    tried = await attempt(url)
    assert not tried.is_well
    assert "it speaks no TLS that we understand" in tried.told


async def test_a_certificate_that_nobody_vouches_for_is_told(tmp_path: Path) -> None:
    async with run_site(tmp_path) as site:
        tried = await attempt(f"https://{site.address}/v1")
    assert not tried.is_well
    assert "its certificate is not trusted here (" in tried.told


async def test_a_script_is_read_and_nobody_asked(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('{"answers": [{"text": "x"}]}')
    tried = await attempt("http://127.0.0.1:1", script=str(tmp_path / "answers.json"), key=None)
    assert tried == TriedModel(is_well=True, told=f"{tmp_path}/answers.json has 1 answer: nobody is asked")


async def ask_for_a_word(url: str, dialect: Dialect = "openai", **changes: Any) -> TriedModel:
    prices = {"gpt-4o": ToldPrice(input=1.0, output=10.0)}
    told: dict[str, Any] = {"name": "m", "dialect": dialect, "base_url": url, "key": KEY, "prices": prices}
    return await try_generating(ToldModel(**told | changes), "gpt-4o", "THE_KEY")


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini"])
async def test_a_model_is_asked_for_a_word_and_what_that_cost_is_told(
    provider: Provider, dialect: Dialect
) -> None:
    tried = await ask_for_a_word(provider.url, dialect)
    assert tried.is_well
    assert tried.told.startswith("gpt-4o answered in ")
    assert tried.told.endswith(" ms: 120 tokens in, 30 out, which cost 0.000420 USD")
    (got,) = provider.got
    assert "Say ok." in str(got.body)
    assert any(value.endswith(KEY) for value in got.headers.values())


async def test_a_model_without_a_price_is_said_to_have_none(provider: Provider) -> None:
    tried = await ask_for_a_word(provider.url, prices={})
    assert tried.told.endswith("120 tokens in, 30 out, it has no price")


@pytest.mark.parametrize(
    ("status", "is_well", "told"),
    [
        (400, True, "gpt-4o did not take our greeting (400)"),
        (401, False, "gpt-4o was refused (401): the key in THE_KEY may not use it"),
        (402, False, "gpt-4o did not answer (402)"),
        (404, False, "gpt-4o did not answer (404)"),
        (529, False, "gpt-4o did not answer (529)"),
    ],
)
async def test_why_a_model_gives_no_word_is_told(
    provider: Provider, status: int, is_well: bool, told: str
) -> None:
    provider.plan.append(Fail(status=status))
    tried = await ask_for_a_word(provider.url)
    assert (tried.is_well, tried.told[: len(told)]) == (is_well, told)
    assert len(provider.got) == 1, "nothing is tried again"


async def test_a_script_is_asked_as_its_provider_would_be(tmp_path: Path) -> None:
    script = tmp_path / "answers.json"
    script.write_text('{"answers": [{"text": "ok", "input_tokens": 10, "output_tokens": 1}]}')
    tried = await ask_for_a_word("http://127.0.0.1:1", script=str(script), key=None)
    assert tried.told.endswith("10 tokens in, 1 out, which cost 0.000020 USD")
    script.write_text('{"answers": [{"sample": "else", "text": "no"}]}')
    tried = await ask_for_a_word("http://127.0.0.1:1", script=str(script), key=None)
    assert tried == TriedModel(is_well=True, told=f"gpt-4o: {script} has no answer for a plain greeting")
