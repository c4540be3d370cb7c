from pathlib import Path

from labrunner.runner.leftovers.cutoffs import CutOffs
from labrunner.store.layout import RunPaths


def set_aside(paths: RunPaths, trial_id: str) -> None:
    (paths.trial(trial_id) / "1.cut-1").mkdir(parents=True)
    (paths.trial(trial_id) / "1").mkdir()


def test_what_earlier_sittings_left_of_a_trial_is_found(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    set_aside(paths, "t")

    assert CutOffs(paths).find("t") == ("1.cut-1",)


def test_what_an_outage_left_of_a_trial_in_this_sitting_is_found(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    found = CutOffs(paths)
    found.expect("t")
    set_aside(paths, "t")

    assert found.find("t") == ("1.cut-1",)
    assert found.find("another") == ()
