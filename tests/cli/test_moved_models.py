"""A model that has moved while a run rested: `lab continue` asks it where it is now."""

import asyncio
from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.cli.calling import lab
from tests.kit.gateway.provider import run_provider

EXPERIMENT = """name: moved
tasks: [{{id: a, input: x}}, {{id: b, input: x}}, {{id: c, input: x}}]
models: {{m: {{dialect: openai, base_url: "{url}/v1", max_retries: 0}}}}
agent:
  command: [$python, -c, 'import json, os, urllib.request as r;
    ask = r.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
      json.dumps({{"model": "m", "messages": []}}).encode(),
      {{"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}});
    open("answer", "wb").write(r.urlopen(ask).read())']
  network: {{models: [m]}}
grader:
  command: 'test -s answer && echo "{{\\"verdict\\": \\"pass\\"}}" > $$AGENTLAB_BENCHMARK_SCORE_PATH'
sandbox: {{kind: bubblewrap}}
max_concurrency: 1
"""


@pytest.mark.bwrap
@pytest.mark.skipif(not works_here()[0], reason="bubblewrap can't run here")
async def test_a_run_goes_on_where_its_model_is_now(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(EXPERIMENT.format(url="http://127.0.0.1:1"))
    first = await asyncio.to_thread(lab, "run", "--run-id", "first", cwd=tmp_path)
    assert first.code == 1, first.out + first.err
    told = " ".join(first.out.split())
    assert "provider: the agent ended with exit status 1; its last call of m (m), of 1 in all, had no" in told
    async with run_provider() as provider:
        file.write_text(EXPERIMENT.format(url=provider.url))
        again = await asyncio.to_thread(lab, "continue", "first", "--fail-on-error=false", cwd=tmp_path)
    assert again.code == 0, again.out + again.err
    assert len(provider.got) == 2
    trials = (tmp_path / ".lab/runs/first/facts/trials.jsonl").read_text()
    assert trials.count('"verdict":"pass"') == 2
