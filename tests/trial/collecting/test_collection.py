import os
from pathlib import Path

import pytest

from labrunner.files.strangers.masking import make_masker
from labrunner.sandbox.door import AttemptFolders
from labrunner.trial.collecting.collection import collect
from tests.kit.syncing import listen


@pytest.fixture
def folders(tmp_path: Path) -> AttemptFolders:
    made = AttemptFolders(root=tmp_path / "trials" / "trial" / "1")
    for folder in made.all():
        folder.mkdir(parents=True)
    return made


def test_named_files_and_every_folder_on_the_way_to_them_are_synced(
    folders: AttemptFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = listen(monkeypatch)
    (folders.out / "benchmark_score.json").write_text("{}")
    (folders.logs / "agent.stdout").write_text("said")
    (folders.artifacts / "a" / "b").mkdir(parents=True)
    (folders.artifacts / "a" / "b" / "plot.svg").write_text("<svg/>")
    kept = collect(folders, make_masker({}))
    root = folders.root
    assert [ref.path for ref in kept.files] == ["out/benchmark_score.json", "artifacts/a/b/plot.svg"]
    assert [ref.path for ref in kept.logs] == ["logs/agent.stdout"]
    assert synced == {
        str(root / "out" / "benchmark_score.json"),
        str(root / "logs" / "agent.stdout"),
        str(root / "artifacts" / "a" / "b" / "plot.svg"),
        str(root / "out"),
        str(root / "logs"),
        str(root / "workspace"),
        str(root / "in"),
        str(root / "artifacts" / "a" / "b"),
        str(root / "artifacts" / "a"),
        str(root / "artifacts"),
        str(root),
        str(root.parent),
        str(root.parent.parent),
    }


def test_empty_logs_scratch_and_grader_are_gone_afterwards(folders: AttemptFolders) -> None:
    (folders.logs / "agent.stdout").write_text("said")
    (folders.logs / "agent.stderr").touch()
    (folders.scratch / "agent-home").mkdir()
    (folders.grader / "target.json").write_text("42")
    collect(folders, make_masker({}))
    assert [path.name for path in folders.logs.iterdir()] == ["agent.stdout"]
    assert not folders.scratch.exists()
    assert not folders.grader.exists()


def test_what_else_lies_among_the_logs_is_thrown_away(folders: AttemptFolders) -> None:
    (folders.logs / "agent.stdout").write_text("said")
    (folders.logs / os.fsdecode(b"\xff")).write_text("not ours")
    (folders.logs / "folder" / "deep").mkdir(parents=True)
    kept = collect(folders, make_masker({}))
    assert [ref.path for ref in kept.logs] == ["logs/agent.stdout"]
    assert [path.name for path in folders.logs.iterdir()] == ["agent.stdout"]
