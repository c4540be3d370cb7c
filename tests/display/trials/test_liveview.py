"""What is under way, on a terminal."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from labrunner.display.trials.liveview import show_under_way, unfinished_line
from labrunner.runner.reports.unfinished import Unfinished
from labrunner.store.reading.underway import LivePhase, UnderWay
from tests.kit.display.printing import to_text

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def under_way(idx: int, node: str | None, phase: LivePhase = "at its node") -> UnderWay:
    return UnderWay(
        schedule_idx=idx, trial_id=f"t{idx}", attempt=1, phase=phase, since=None, began_at=None, node=node
    )


def test_trials_under_way_are_shown_with_their_nodes_and_how_many_each_has() -> None:
    trials = [under_way(0, "gpu-2/bb"), under_way(1, "gpu-1/aa"), under_way(2, "gpu-1/aa")]
    found = show_under_way([*trials, under_way(3, "gpu-1/aa", "waiting"), under_way(4, None)], NOW)
    assert found is not None
    shown = to_text(found)
    assert "under way" in shown.splitlines()[1]
    assert "node" in shown.splitlines()[1]
    assert shown.splitlines()[-1].strip() == "on 2 nodes: gpu-1/aa: 2, gpu-2/bb: 1"


def test_a_run_on_one_machine_has_no_nodes() -> None:
    shown = show_under_way([under_way(0, None, "agent")], NOW)
    assert shown is not None
    assert "node" not in to_text(shown)


@pytest.mark.parametrize("node", [None, "gpu-1/aa"])
def test_a_live_trial_says_on_which_node_it_is(node: str | None) -> None:
    seen = Unfinished(trial_id="t", attempt=2, folder=Path("/t"), is_live=True, phase="barrier", node=node)
    where = "" if node is None else " on gpu-1/aa"
    assert unfinished_line(seen, NOW) == f"t: running, barrier (attempt 2{where})"
