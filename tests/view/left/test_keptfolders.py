"""What changed in the workspace of a real run, whatever its agent wrote there."""

import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from labrunner.files.layering.layerfile import LayerHead, write_layer
from labrunner.files.layering.layernote import LAYER
from labrunner.records.encoding import canonical
from labrunner.records.rows import SlotRows
from labrunner.records.seals import seal
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.rows.single_records import read_run
from labrunner.view.left.beginning import beginnings
from labrunner.view.left.changetelling import LONGEST_TEXT, MOST_CHANGES
from labrunner.view.left.keptfiles import find_kept
from labrunner.view.left.keptfolders import tell_changes
from tests.kit.cli.calling import lab, write_experiment

AGENT = f"""
import os, pathlib
here = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"])
(here / "kept.txt").write_text((here / "kept.txt").read_text().replace("two", "2"))
(here / "old.txt").unlink()
(here / "run.sh").chmod(0o755)
(here / "new").mkdir()
(here / "new" / "<img src=x onerror=alert(1)>.txt").write_text("<script>alert(1)</script>\\n")
(here / "bytes").write_bytes(b"\\0\\1")
(here / "long").write_text("x" * {LONGEST_TEXT + 1})
(here / "out").symlink_to("/etc/passwd")
os.mkfifo(here / "pipe")
(here / os.fsdecode(b"bad\\xffname")).write_text("odd\\n")
pathlib.Path(os.environ["AGENTLAB_EVENTS_PATH"]).with_name("memory.txt").write_text("known\\n")
(here / "answer.txt").write_text("WORD 0")
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_experiment(
        tmp_path_factory.mktemp("changes") / "e",
        tasks=1,
        agent=AGENT,
        extra="keep: {workspace: always}\n",
    )
    start = folder / "start"
    (start / "same").mkdir(parents=True)
    (start / "same" / "as.before").write_text("same\n")
    (start / "kept.txt").write_text("one\ntwo\nthree\n")
    (start / "old.txt").write_text("gone\n")
    (start / "run.sh").write_text("#!/bin/sh\n")
    row = {"id": "t0", "input": "word 0", "target": "WORD 0", "workspace": "start", "files": {"f.txt": "f\n"}}
    (folder / "tasks.jsonl").write_text(json.dumps(row) + "\n")
    ran = lab("run", "--run-id", "one", cwd=folder)
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture
def paths(experiment: Path) -> RunPaths:
    return RunPaths(experiment / ".lab/runs/one")


def look(paths: RunPaths) -> tuple[SlotRows, dict[str, dict[str, Any]]]:
    (rows,) = iter_finished(paths)
    with beginnings(paths) as began:
        folders = tell_changes(paths, rows, 1, began)
    return rows, {str(each["folder"]): each for each in folders}


def test_every_change_is_told_as_what_it_is(paths: RunPaths) -> None:
    _, folders = look(paths)
    workspace = folders["workspace"]
    found = {change.path: change for change in workspace["changes"]}
    assert (workspace["is_compared"], workspace["note"], workspace["same"]) == (True, None, 2)
    assert {path: change.how for path, change in found.items()} == {
        "answer.txt": "added",
        "bad\\xffname": "added",
        "bytes": "added",
        "kept.txt": "changed",
        "long": "added",
        "new/<img src=x onerror=alert(1)>.txt": "added",
        "old.txt": "deleted",
        "out": "added",
        "pipe": "added",
        "run.sh": "mode",
    }
    assert found["kept.txt"].patch == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert found["old.txt"].patch == "@@ -1,1 +1,0 @@\n-gone"
    assert (found["old.txt"].digest, found["pipe"].why_none) == (None, "fifo")
    assert (found["bytes"].why_none, found["long"].why_none) == ("no text", "too long to be compared")
    assert found["out"].patch == "@@ -1,0 +1,1 @@\n+a link to /etc/passwd"
    assert found["out"].digest is None
    assert found["bad\\xffname"].patch == "@@ -1,0 +1,1 @@\n+odd"
    (memory,) = folders["state"]["changes"]
    assert (memory.path, memory.how, memory.patch) == ("memory.txt", "kept", "@@ -1,0 +1,1 @@\n+known")


def test_a_file_of_a_kept_folder_is_found_by_its_digest(paths: RunPaths) -> None:
    rows, folders = look(paths)
    for change in folders["workspace"]["changes"]:
        if change.digest is not None:
            with find_kept(paths, rows, 1, change.digest).open() as file:
                assert len(file.read()) == change.size, change.path


def test_a_file_of_a_layer_is_unpacked_once(paths: RunPaths) -> None:
    (rows,) = iter_finished(paths)
    layer = paths.attempt(rows.trial_id, 1) / LAYER
    with write_layer(layer, LayerHead(folder="/testbed", image="img"), (1 << 20, 100)) as writer:
        top, file = tarfile.TarInfo(""), tarfile.TarInfo("a.txt")
        top.type, file.size = tarfile.DIRTYPE, 7
        writer.add(top)
        writer.add(file, io.BytesIO(b"content"))
    kept = find_kept(paths, rows, 1, canonical.digest_bytes(b"content"))
    layer.unlink()
    with kept.open() as found:
        assert (kept.ref.path, kept.ref.size, found.read()) == ("/testbed/a.txt", 7, b"content")


def test_an_archive_is_held_against_what_it_unpacks_to(experiment: Path, tmp_path: Path) -> None:
    with tarfile.open(experiment / "start.tar", "w") as archive:
        for path in sorted((experiment / "start").iterdir()):
            archive.add(path, path.name)
    row = json.loads((experiment / "tasks.jsonl").read_text()) | {"workspace": "start.tar"}
    (experiment / "packed.jsonl").write_text(json.dumps(row) + "\n")
    ran = lab("run", "--run-id", "packed", "--set", "tasks=packed.jsonl", cwd=experiment)
    assert ran.code == 0, ran.err
    packed, plain = (look(RunPaths(experiment / ".lab/runs" / name))[1] for name in ("packed", "one"))
    assert packed["workspace"]["changes"] == plain["workspace"]["changes"]


def test_sources_that_are_others_now_are_not_shown(experiment: Path, paths: RunPaths) -> None:
    (experiment / "start" / "old.txt").write_text("a secret of another day\n")
    try:
        _, folders = look(paths)
    finally:
        (experiment / "start" / "old.txt").write_text("gone\n")
    workspace = folders["workspace"]
    assert "is not any more what it was" in workspace["note"]
    assert "old.txt" not in {change.path for change in workspace["changes"]}
    assert {change.how for change in workspace["changes"]} == {"kept"}
    assert "secret" not in str(workspace["changes"])


def forge(paths: RunPaths, copy: Path, *files: dict[str, object]) -> RunPaths:
    """A run whose task has other files, with digests and seal redone: as a stranger can hand it on."""
    shutil.copytree(paths.root, copy, symlinks=True, ignore=shutil.ignore_patterns("pipe"))
    forged = RunPaths(copy)
    task = json.loads(forged.tasks.read_text())
    data = canonical.encode_line(
        task | {"files": [{"content": None, "source": None} | each for each in files]}
    )
    forged.tasks.write_bytes(data)
    record = read_run(forged)
    digests = msgspec.structs.replace(record.digests, tasks=canonical.digest_bytes(data))
    sealed = seal(msgspec.structs.replace(record, digests=digests))
    forged.run.write_bytes(canonical.encode_line(sealed))
    return forged


def test_looking_at_a_strangers_run_writes_nothing_elsewhere(
    experiment: Path, paths: RunPaths, tmp_path: Path
) -> None:
    owned = tmp_path / "owned"
    climbing = f"{'../' * 12}{owned.relative_to('/')}"
    for number, path in enumerate((str(owned), climbing)):
        forged = forge(paths, tmp_path / f"run-{number}", {"path": path, "content": "x"})
        workspace = look(forged)[1]["workspace"]
        assert not owned.exists()
        assert "does not lie below the folder" in workspace["note"]
    forged = forge(paths, tmp_path / "run-in", {"path": "f.txt", "content": "another\n"})
    assert "f.txt" in {change.path for change in look(forged)[1]["workspace"]["changes"]}


def test_what_was_changed_or_thrown_away_since_says_so(experiment: Path, paths: RunPaths) -> None:
    kept = paths.attempt(next(iter_finished(paths)).trial_id, 1) / "workspace"
    added = kept / "later.txt"
    added.write_text("later\n")
    try:
        assert look(paths)[1]["workspace"]["note"] == "it was changed since it was kept"
        kept.rename(kept.with_name("elsewhere"))
        assert look(paths)[1]["workspace"]["note"] == "it is not there any more"
    finally:
        kept.with_name("elsewhere").rename(kept)
        added.unlink()


def test_very_many_changes_are_counted(paths: RunPaths) -> None:
    kept = paths.attempt(next(iter_finished(paths)).trial_id, 1) / "workspace" / "many"
    kept.mkdir()
    for number in range(MOST_CHANGES):
        (kept / f"{number:04}").write_text("x\n")
    try:
        workspace = look(paths)[1]["workspace"]
    finally:
        for file in kept.iterdir():
            file.unlink()
        kept.rmdir()
    assert (len(workspace["changes"]), workspace["left_out"]) == (MOST_CHANGES, 10)
