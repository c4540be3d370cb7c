"""`models:` and who may use them: as they are resolved, and what is said of those that can't be used."""

# ruff: noqa: E501 - messages stand as people read them

import pytest

from labrunner.experiment import codec
from labrunner.experiment.resolved import AgentLimits, ModelEntry, ModelPrice, Network
from labrunner.experiment.resolving.load import Overrides
from labrunner.records.encoding import canonical
from tests.kit.experiment.authoring import GRADER, SMALL, TASKS, Bench

WHOLE = f"""name: whole
{TASKS}{GRADER}agent:
  command: run
  network: {{models: [claude, local], allow: [example.com, "*.example.org"]}}
  limits: {{cost_usd: 2, requests: 300}}
models:
  claude: {{dialect: anthropic, key: ANTHROPIC_API_KEY, server_tools: [web_search]}}
  local:
    dialect: openai
    base_url: http://127.0.0.1:8000/v1
    key: null
    prices: {{my-model: {{input: 0.1, output: 0.4, cache_read: 0}}}}
    max_connections: 4
    max_retries: 0
  spare: {{dialect: gemini, key: GEMINI_API_KEY}}
"""
USING = "agent: {command: x, network: {models: [m]}}\n"


def with_models(models: str, agent: str = USING) -> str:
    return f"name: x\n{TASKS}{GRADER}{agent}models: {models}\n"


def test_models_networks_and_limits_are_resolved_as_they_are_written(bench: Bench) -> None:
    (variant,) = (experiment := bench.load(WHOLE)).variants
    assert variant.agent.network == Network(
        mode="allow", hosts=("example.com", "*.example.org"), models=("claude", "local")
    )
    assert variant.agent.limits == AgentLimits(cost_usd=2.0, requests=300)
    assert variant.models == (
        ModelEntry(name="claude", dialect="anthropic", key="ANTHROPIC_API_KEY", server_tools=("web_search",)),
        ModelEntry(
            name="local",
            dialect="openai",
            base_url="http://127.0.0.1:8000/v1",
            prices={"my-model": ModelPrice(input=0.1, output=0.4, cache_read=0)},
            max_connections=4,
            max_retries=0,
        ),
    )
    assert experiment.models == variant.models, "what nobody uses needs no key"
    assert [entry.variable for entry in variant.models] == ["LAB_MODEL_CLAUDE", "LAB_MODEL_LOCAL"]


def test_models_survive_being_written_and_read(bench: Bench) -> None:
    experiment = bench.load(WHOLE)
    written = canonical.decode_plain(canonical.encode(codec.to_record(experiment)))
    assert isinstance(written, dict)
    assert codec.from_record(written, list(codec.task_lines(experiment))) == experiment


def test_a_variant_has_its_own_network_and_merges_limits(bench: Bench) -> None:
    variants = """variants:
  - {id: one}
  - {id: two, agent: {network: {models: [spare]}, limits: {cost_usd: null, tokens: 1000}}}
"""
    one, two = (experiment := bench.load(WHOLE + variants)).variants
    assert one.agent.limits == AgentLimits(cost_usd=2.0, requests=300)
    assert two.agent.limits == AgentLimits(tokens=1000, requests=300)
    assert two.agent.network == Network(mode="none", models=("spare",))
    assert [entry.name for entry in experiment.models] == ["claude", "local", "spare"]


def test_a_sandbox_without_a_network_of_its_own_may_have_models_beside_the_hosts(bench: Bench) -> None:
    agent = "agent: {command: x, network: {models: [m], allow: full}}\nsandbox: {kind: process}\n"
    (variant,) = bench.load(with_models('{m: {dialect: openai, base_url: "http://h"}}', agent)).variants
    assert variant.agent.network == Network(mode="full", models=("m",))


def test_setup_and_grader_may_be_allowed_hosts(bench: Bench) -> None:
    sets = (("setup.network", "{allow: [a.example]}"), ("grader.network", "{allow: [b.example]}"))
    experiment = bench.load(SMALL, Overrides(sets=sets))
    assert experiment.variants[0].setup.network == Network(mode="allow", hosts=("a.example",))
    assert experiment.tasks[0].grader.network == Network(mode="allow", hosts=("b.example",))


def test_an_image_makes_containers_the_kind(bench: Bench) -> None:
    text = SMALL.replace(TASKS, "tasks: [{id: a, input: x, image: 'python:3', workdir: /src}]\n")
    assert bench.load(text).variants[0].sandbox.kind == "docker"


LOCAL = 'dialect: openai, base_url: "http://127.0.0.1:1/v1"'
REFUSED: dict[str, tuple[str, str]] = {
    "an unknown dialect": (
        with_models("{m: {dialect: cohere, key: K}}"),
        "experiment.yaml:5: models.m.dialect: must be 'openai', 'anthropic' or 'gemini', found text 'cohere'",
    ),
    "no dialect": (
        with_models("{m: {key: K}}"),
        "experiment.yaml:5: models.m.dialect: is missing",
    ),
    "an unknown field": (
        with_models("{m: {dialect: openai, url: x}}"),
        "experiment.yaml:5: models.m.url: there is no such field; known fields: dialect, base_url, key, prices, max_connections, max_retries, server_tools, script",
    ),
    "a model that is not there": (
        with_models(f"{{mock: {{{LOCAL}}}}}"),
        "experiment.yaml:4: agent.network: 'm' is no entry of models; nearest are mock",
    ),
    "a model where there are none": (
        with_models("{}"),
        "experiment.yaml:4: agent.network: 'm' is no entry of models; there are none in this file",
    ),
    "the same model twice": (
        with_models(f"{{m: {{{LOCAL}}}}}", "agent: {command: x, network: {models: [m, m]}}\n"),
        "experiment.yaml:4: agent.network: models has 'm' twice; keep one",
    ),
    "no models": (
        with_models("{}", "agent: {command: x, network: {models: []}}\n"),
        "experiment.yaml:4: agent.network: models must be a list of names of entries of `models`, found an empty list",
    ),
    "an unknown field of the network": (
        with_models("{}", "agent: {command: x, network: {hosts: [a]}}\n"),
        "experiment.yaml:4: agent.network: must be none, full or {models: [name, …], allow: [host, …]}, found a map with the unknown field 'hosts'",
    ),
    "a page where a host should be": (
        with_models("{}", 'agent: {command: x, network: {allow: ["https://example.com/x"]}}\n'),
        "experiment.yaml:4: agent.network: allow: 'https://example.com/x' can't be allowed: write a host and, if need be, a port; no address of a page, no network",
    ),
    "every host": (
        with_models("{}", 'agent: {command: x, network: {allow: ["*"]}}\n'),
        "experiment.yaml:4: agent.network: allow: '*' can't be allowed: to reach every host, write `network: full`",
    ),
    "models for a grader": (
        f"name: x\n{TASKS}agent: {{command: x}}\ngrader: {{command: x, network: {{models: [m]}}}}\n",
        "experiment.yaml:4: grader.network: models are for agents only: write none, full or {allow: [host, …]}",
    ),
    "a key of its own provider that is missing": (
        with_models("{m: {dialect: anthropic}}"),
        "experiment.yaml:5: models.m.key: is missing: anthropic's own provider asks for one; name the variable that holds it, such as ANTHROPIC_API_KEY, or write a base_url",
    ),
    "a key's value": (
        with_models("{m: {dialect: openai, key: sk-proj-abc123}}"),
        "experiment.yaml:5: models.m.key: is no variable's name; write the name of the variable that holds the key, never the key",
    ),
    "a key's value that could be a name": (
        with_models("{m: {dialect: gemini, key: AIzaSyA1234567890abcdefghijklmnopqrstu}}"),
        "experiment.yaml:5: models.m.key: is no variable's name; write the name of the variable that holds the key, never the key",
    ),
    "a long key's value of nobody we know": (
        with_models("{m: {dialect: openai, key: a8f3c1d09b7e4a2f8c6d5e4f3a2b1c0d}}"),
        "experiment.yaml:5: models.m.key: is no variable's name; write the name of the variable that holds the key, never the key",
    ),
    "an address of another kind": (
        with_models("{m: {dialect: openai, base_url: ftp://h/v1}}"),
        "experiment.yaml:5: models.m.base_url: must begin with http:// or https:// and name a host, found 'ftp://h/v1'; write it like https://api.example.com/v1",
    ),
    "an address without a host": (
        with_models('{m: {dialect: openai, base_url: "http:///v1"}}'),
        "experiment.yaml:5: models.m.base_url: must begin with http:// or https:// and name a host, found 'http:///v1'; write it like https://api.example.com/v1",
    ),
    "an address with a password": (
        with_models('{m: {dialect: openai, base_url: "https://me:geheim@h/v1"}}'),
        "experiment.yaml:5: models.m.base_url: holds a user or password, which would be written into the run; name a variable in key instead",
    ),
    "an address with a query": (
        with_models('{m: {dialect: openai, base_url: "https://h/v1?key=1"}}'),
        "experiment.yaml:5: models.m.base_url: holds a query or fragment, which providers' addresses have not; write it like https://api.example.com/v1",
    ),
    "an address with a strange port": (
        with_models('{m: {dialect: openai, base_url: "https://h:99999/v1"}}'),
        "experiment.yaml:5: models.m.base_url: is no address; write it like https://api.example.com/v1",
    ),
    "a negative price": (
        with_models(f"{{m: {{{LOCAL}, prices: {{x: {{input: -1, output: 1}}}}}}}}"),
        "experiment.yaml:5: models.m.prices.x.input: must be at least 0, found the number -1",
    ),
    "half a price": (
        with_models(f"{{m: {{{LOCAL}, prices: {{x: {{input: 1}}}}}}}}"),
        "experiment.yaml:5: models.m.prices.x.output: is missing",
    ),
    "a script beside an address": (
        with_models(f"{{m: {{{LOCAL}, script: answers.json}}}}"),
        "experiment.yaml:5: models.m.base_url: stands beside script, which answers without asking anybody; keep one of them",
    ),
    "a script that is not there": (
        with_models("{m: {dialect: openai, script: gone.json}}"),
        "experiment.yaml:5: models.m.script: the file 'gone.json' does not exist",
    ),
    "a name that is no part of an address": (
        with_models(f"{{m: {{{LOCAL}}}, a/b: {{{LOCAL}}}}}"),
        "experiment.yaml:5: models.a/b: 'a/b' can't be a model's name: it is part of an address; letters, digits, -, _ and ., 64 at most, a letter or digit first",
    ),
    "two names for one variable": (
        with_models(f"{{m: {{{LOCAL}}}, a-b: {{{LOCAL}}}, a.b: {{{LOCAL}}}}}"),
        "experiment.yaml:5: models.a.b: 'a.b' and 'a-b' would both be LAB_MODEL_A_B_URL for the agent; rename one",
    ),
    "an unknown tool of a provider": (
        with_models(f"{{m: {{{LOCAL}, server_tools: [search]}}}}"),
        "experiment.yaml:5: models.m.server_tools.0: must be 'web_search', 'web_fetch', 'code', 'mcp', 'file_search', 'image_generation', 'url' or 'file', found text 'search'",
    ),
    "no connections": (
        with_models(f"{{m: {{{LOCAL}, max_connections: 0}}}}"),
        "experiment.yaml:5: models.m.max_connections: must be at least 1, found the number 0",
    ),
    "limits without models": (
        f"name: x\n{TASKS}{GRADER}agent: {{command: x, limits: {{requests: 3}}}}\n",
        "experiment.yaml:4: agent.limits: limits what an agent uses of models that its network names, and it names none; write network: {models: [name]}, or take limits out",
    ),
    "an unknown limit": (
        with_models(f"{{m: {{{LOCAL}}}}}", USING.replace("}}", "}, limits: {calls: 3}}")),
        "experiment.yaml:4: agent.limits: must be a map of cost_usd, tokens and requests to numbers, found 'calls'",
    ),
    "a limit of nothing": (
        with_models(f"{{m: {{{LOCAL}}}}}", USING.replace("}}", "}, limits: {cost_usd: 0}}")),
        "experiment.yaml:4: agent.limits: cost_usd must be a number greater than 0, or null, found the number 0",
    ),
    "half a request": (
        with_models(f"{{m: {{{LOCAL}}}}}", USING.replace("}}", "}, limits: {requests: 1.5}}")),
        "experiment.yaml:4: agent.limits: requests must be a whole number from 1 on, or null, found the number 1.5",
    ),
    "the key inside of the sandbox": (
        with_models("{m: {dialect: openai, key: K}}", USING.replace("}}", "}, secrets: [K]}")),
        "experiment.yaml:4: agent.secrets.0: K is the key of models.m, which stays outside of the sandbox; take it out here",
    ),
    "only models where nothing keeps the rest away": (
        with_models(f"{{m: {{{LOCAL}}}}}", f"{USING}sandbox: {{kind: process}}\n"),
        "experiment.yaml:4: agent.network: the process sandbox has no network isolation, found models [m] and nothing else; write {models: [m], allow: full}, or use bubblewrap",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_used_is_refused_with_where_what_and_what_to_do(bench: Bench, name: str) -> None:
    text, said = REFUSED[name]
    bench.write(answers_json='{"answers": [{"text": "x"}]}')
    assert bench.complaint(text) == said


@pytest.mark.parametrize(
    "name", ["a key's value", "a key's value that could be a name", "an address with a password"]
)
def test_a_message_never_shows_a_secret(bench: Bench, name: str) -> None:
    said = bench.complaint(REFUSED[name][0])
    assert not any(secret in said for secret in ("sk-proj", "AIza", "geheim"))
