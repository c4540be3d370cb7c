import json
from pathlib import Path
from typing import Any

import pytest

from labrunner.trial.collecting.result_file import MOST, AgentWord, hear, is_agent_result, read_word

IDS = {"run_id": "r", "trial_id": "x", "variant_id": "v", "task_id": "t", "repl_idx": 0}


def result(metrics: dict[str, Any], **changes: Any) -> bytes:
    made = {"schema_version": "agent_result_v1", "ids": IDS, "outcome": "success", "metrics": metrics}
    return json.dumps(made | changes).encode()


@pytest.mark.parametrize(
    ("metrics", "usage"),
    [
        ({}, {}),
        ({"cost_usd": 0.25, "tokens": 12, "requests": 3}, {"cost_usd": 0.25, "tokens": 12, "requests": 3}),
        ({"cost_usd": 0}, {"cost_usd": 0}),
        ({"cost_usd": -0.01, "tokens": 5}, {"tokens": 5}),
        ({"cost_usd": MOST, "tokens": MOST + 1}, {"cost_usd": MOST}),
        ({"tokens": 10**40}, {}),
        ({"tokens": 1e300}, {}),
        ({"tokens": "12", "cost_usd": True, "requests": None}, {}),
        ({"input_tokens": 7, "output_tokens": 5}, {"input_tokens": 7, "output_tokens": 5, "tokens": 12}),
        ({"input_tokens": 7}, {"input_tokens": 7, "tokens": 7}),
        ({"input_tokens": 7, "output_tokens": -5}, {"input_tokens": 7, "tokens": 7}),
        ({"input_tokens": 7, "output_tokens": 5, "tokens": 20}, None),
        ({"accuracy": 0.5, "cpu_s": 3, "max_rss_mb": 1}, {}),
    ],
)
def test_only_numbers_that_can_be_true_are_kept_as_use(
    metrics: dict[str, Any], usage: dict[str, float] | None
) -> None:
    data = result(metrics)
    assert is_agent_result(data)
    assert read_word(data).usage == (metrics if usage is None else usage)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"metrics": {"cost_usd": 1}}',
        result({"cost_usd": 1}, outcome="won"),
        result({}).replace(b'"metrics": {}', b'"metrics": {"cost_usd": NaN}'),
        result({}).replace(b'"metrics": {}', b'"metrics": {"cost_usd": 1e999}'),
        result({"cost_usd": {"usd": 1}}),
    ],
)
def test_what_is_no_result_reports_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "result.json").write_bytes(data)
    assert not is_agent_result(data)
    assert hear(tmp_path) == AgentWord()


def test_no_result_reports_nothing(tmp_path: Path) -> None:
    assert hear(tmp_path) == AgentWord()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(result({"cost_usd": 1}))
    (tmp_path / "result.json").symlink_to(tmp_path / "elsewhere")
    assert hear(tmp_path) == AgentWord()
