from labrunner.experiment.resolved import ModelEntry
from labrunner.gateway.variables import name_models, name_proxy

BASE = "http://127.0.0.1:9701"


def test_each_model_has_variables_of_its_own_and_the_first_of_a_dialect_those_that_clients_read() -> None:
    models = [
        ModelEntry(name="small", dialect="openai"),
        ModelEntry(name="large.one", dialect="openai"),
        ModelEntry(name="claude", dialect="anthropic"),
        ModelEntry(name="g", dialect="gemini"),
    ]
    env = name_models(models, BASE, "token")
    assert env["OPENAI_BASE_URL"] == env["LAB_MODEL_SMALL_URL"] == f"{BASE}/small/v1"
    assert env["LAB_MODEL_LARGE_ONE_URL"] == f"{BASE}/large.one/v1"
    assert env["ANTHROPIC_BASE_URL"] == env["LAB_MODEL_CLAUDE_URL"] == f"{BASE}/claude"
    assert env["GOOGLE_GEMINI_BASE_URL"] == f"{BASE}/g"
    keys = [name for name in env if name.endswith("_KEY")]
    assert {env[name] for name in keys} == {"token"}
    assert {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"} < set(keys)


def test_who_has_no_models_has_no_variables() -> None:
    assert name_models([], BASE, "token") == {}


def test_the_proxy_is_named_in_both_cases_and_models_are_not_reached_through_it() -> None:
    env = name_proxy("127.0.0.1", 9702, None)
    assert env["HTTPS_PROXY"] == env["https_proxy"] == env["HTTP_PROXY"] == "http://127.0.0.1:9702"
    assert env["NO_PROXY"] == env["no_proxy"] == "127.0.0.1,localhost,::1"
    assert env["NODE_USE_ENV_PROXY"] == "1"


def test_where_the_proxy_is_shared_its_address_has_the_token() -> None:
    env = name_proxy("172.20.0.1", 4242, "secret")
    assert env["HTTPS_PROXY"] == "http://lab:secret@172.20.0.1:4242"
    assert env["NO_PROXY"].startswith("172.20.0.1,")
