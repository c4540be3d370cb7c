"""Secrets in what is kept of an attempt, wherever an agent may have left them."""

import asyncio
import base64
import json
import os
import re
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from labrunner.experiment.run_policy import KeepPolicy
from labrunner.files.strangers.masking import make_masker
from labrunner.files.strangers.sealing import digest_tree
from labrunner.records.completion import Completion, Failed, Graded
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.trial.collecting.redaction import CHUNK, Redactor
from tests.kit.builders import make_agent, make_experiment, make_policy, make_variant
from tests.kit.syncing import listen
from tests.kit.trial.attempting import Attempt, Step, scores

SECRET = "sk-test/0123456789+ü"
RAW = SECRET.encode()
MASKER = make_masker({"KEY": SECRET})
FAIL = scores('{"verdict": "fail"}')


def find_leaks(root: Path) -> list[str]:
    """Files and names below a folder that have a secret, in whatever spelling is searched."""
    found = []
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            said = name + os.readlink(path) if os.path.islink(path) else name
            if os.path.isfile(path) and not os.path.islink(path):
                said += Path(os.fsdecode(path)).read_bytes()
            if any(needle in said for needle, _ in MASKER.needles):
                found.append(os.fsdecode(path))
    return found


def begin(trials_dir: Path, work: Callable[[AttemptFolders], object], grader: Step = FAIL) -> Attempt:
    def step(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        work(folders)
        return PhaseEnd(exit_status=0)

    variant = make_variant(agent=make_agent(secrets=("KEY",)))
    policy = make_policy(keep=KeepPolicy(workspace="always", logs="always"))
    experiment = make_experiment(variants=(variant,), policy=policy)
    return Attempt(experiment, trials_dir, {"agent": step, "grader": grader}, secrets={"KEY": SECRET})


def write_database(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (key TEXT)")
        database.execute("INSERT INTO t VALUES (?)", (SECRET,))
    database.close()


def leave_everywhere(folders: AttemptFolders) -> None:
    (folders.workspace / "w.txt").write_text(f"key={SECRET}\nend\n")
    (folders.out / "traj.json").write_text(json.dumps({"auth": SECRET}))
    (folders.out / "inner").mkdir()
    (folders.out / "inner" / "request").write_text(quote(SECRET, safe=""))
    (folders.state / "notes").write_bytes(RAW.hex().encode())
    (folders.state / "events.jsonl").write_text(json.dumps({"key": SECRET}).replace("/", "\\/") + "\n")
    (folders.out / "result.json").write_text(json.dumps({"answer": SECRET}))
    write_database(folders.workspace / "kept.sqlite")


async def test_no_file_that_is_kept_has_the_secret_and_each_is_named(tmp_path: Path) -> None:
    run = begin(tmp_path, leave_everywhere)

    completion = await run.carry_out()

    assert find_leaks(tmp_path) == []
    assert (run.folders.workspace / "w.txt").read_text().startswith("key=[masked:KEY]*")
    assert (run.folders.workspace / "w.txt").read_text().endswith("*\nend\n")
    assert set(completion.timing.masked) == {
        "out/result.json",
        "out/traj.json",
        "out/inner/request",
        "state/notes",
        "state/events.jsonl",
        "workspace/kept.sqlite",
        "workspace/w.txt",
    }
    assert completion.timing.masked_secrets == 7


async def test_a_database_stays_one(tmp_path: Path) -> None:
    run = begin(tmp_path, leave_everywhere)
    await run.carry_out()

    with sqlite3.connect(run.folders.workspace / "kept.sqlite") as database:
        (row,) = database.execute("SELECT key FROM t").fetchall()
    database.close()

    assert row[0].startswith("[masked:KEY]")


async def test_whatever_else_was_handed_in_is_synced_and_digested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = listen(monkeypatch)
    run = begin(tmp_path, leave_everywhere)
    completion = await run.carry_out()

    out, state = run.folders.out, run.folders.state
    kept = [out / "traj.json", out / "inner" / "request", out / "inner", out, state / "notes"]
    assert {str(path) for path in kept} <= synced
    assert {str(path) for path in run.folders.workspace.iterdir()} <= synced
    assert completion.timing.folders == {
        "out": digest_tree(out),
        "state": digest_tree(state),
        "workspace": digest_tree(run.folders.workspace),
    }
    assert completion.timing.workspace_digest == digest_tree(run.folders.workspace)


FORMS = {
    "plain": RAW,
    "hex": RAW.hex().encode(),
    "HEX": RAW.hex().upper().encode(),
    "url": quote(SECRET, safe="").encode(),
    "url in lower case": re.sub("%..", lambda escape: escape[0].lower(), quote(SECRET, safe="")).encode(),
    "json": json.dumps(SECRET).encode(),
    "json with slashes": json.dumps(SECRET).replace("/", "\\/").encode(),
    "json in json": json.dumps(json.dumps(SECRET)).encode(),
    "base64": base64.b64encode(RAW),
    "base64 after one": base64.b64encode(b"x" + RAW),
    "base64 after two": base64.b64encode(b"xx" + RAW),
    "base64 of urls": base64.urlsafe_b64encode(b"\xff\xfe:" + RAW),
}


@pytest.mark.parametrize("before", [0, CHUNK - 5, 3 * CHUNK - 1])
@pytest.mark.parametrize("form", FORMS)
def test_every_spelling_is_found_wherever_it_lies(tmp_path: Path, form: str, before: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"-" * before + FORMS[form] + b"rest")

    redactor = Redactor(MASKER)
    redactor.redact(tmp_path, "workspace")

    assert redactor.masked == {"workspace/file": 1}
    assert path.stat().st_size == before + len(FORMS[form]) + 4
    assert find_leaks(tmp_path) == []


def test_names_and_targets_of_links_are_masked_and_do_not_collide(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    folder = tmp_path / f"a-{secret}"
    folder.mkdir()
    (folder / f"{secret}.txt").write_text("harmless")
    (tmp_path / "a-[masked:KEY]").mkdir()
    (tmp_path / "link").symlink_to(f"/nowhere/{secret}")

    redactor = Redactor(make_masker({"KEY": secret}))
    redactor.redact(tmp_path, "workspace")

    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert secret not in str(names)
    assert len(names) == 4
    assert (tmp_path / "link").readlink() == Path("/nowhere/[masked:KEY]")
    assert all(secret not in name for name in redactor.masked)
    assert redactor.count == 3


def test_a_file_with_a_name_outside_is_replaced_and_the_outer_one_left_alone(tmp_path: Path) -> None:
    inside = tmp_path / "workspace"
    inside.mkdir()
    (tmp_path / "mine").write_text(SECRET)
    for name in ("a", "b"):
        (inside / name).hardlink_to(tmp_path / "mine")

    redactor = Redactor(MASKER)
    redactor.redact(inside, "workspace")

    assert (tmp_path / "mine").read_text() == SECRET
    assert find_leaks(inside) == []
    assert set(redactor.masked) == {"workspace/a"}
    assert redactor.dropped == {"workspace/b": "another name of a file that held secrets"}


@pytest.mark.parametrize("make", [os.mkdir, Path.touch])
def test_a_name_that_gets_too_long_when_it_is_masked_is_cut(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    short = make_masker({"A_LONG_NAME_FOR_A_KEY": "12345678"})
    make(tmp_path / f"12345678{'x' * 247}")
    redactor = Redactor(short)
    redactor.redact(tmp_path, "workspace")
    assert redactor.count == 1
    assert not redactor.dropped
    assert [name.startswith("[masked:A_LONG") for name in os.listdir(tmp_path)] == [True]


def test_a_link_whose_target_gets_too_long_when_it_is_masked_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(f"12345678{'/x' * 2040}")
    redactor = Redactor(make_masker({"A_LONG_NAME_FOR_A_KEY": "12345678"}))
    redactor.redact(tmp_path, "workspace")
    assert list(redactor.dropped) == ["workspace/link"]
    assert os.listdir(tmp_path) == []


def test_a_copy_that_could_not_be_written_whole_does_not_stay(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/file").write_bytes(RAW + b"x" * 10_000)
    os.link(tmp_path / "work/file", tmp_path / "outside")
    redactor, (soft, hard) = Redactor(MASKER), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        redactor.redact(tmp_path / "work", "workspace")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(redactor.dropped) == ["workspace/file"]
    assert os.listdir(tmp_path / "work") == []


def test_holes_are_neither_read_nor_filled(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 39)
        file.write(RAW)

    redactor = Redactor(MASKER)
    redactor.redact(tmp_path, "workspace")

    assert redactor.count == 1
    assert path.stat().st_size == 1 << 40
    assert path.stat().st_blocks * 512 < 1 << 20


def test_rights_that_were_taken_away_hide_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text(SECRET)
    (folder / "file").chmod(0)
    folder.chmod(0)

    Redactor(MASKER).redact(tmp_path, "workspace")

    folder.chmod(0o700)
    assert b"[masked:KEY]" in (folder / "file").read_bytes()


def test_a_tree_deeper_than_paths_may_be_long_is_searched(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    fd = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(fd, RAW)
    os.close(fd)

    redactor = Redactor(MASKER)
    redactor.redact(tmp_path, "workspace")

    fd = os.open("file", os.O_RDONLY, dir_fd=here)
    assert os.read(fd, 12) == b"[masked:KEY]"
    assert redactor.count == 1
    os.close(fd)
    os.close(here)


async def test_a_workspace_that_is_thrown_away_is_left_as_it_was_graded(tmp_path: Path) -> None:
    seen: list[str] = []

    def grade(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        seen.append((folders.workspace / "w.txt").read_text())
        return scores('{"verdict": "pass"}')(phase, folders)

    run = begin(tmp_path, leave_everywhere, grade)
    run.experiment = make_experiment(variants=run.experiment.variants)  # keeps what failed
    completion = await run.carry_out()

    assert isinstance(completion.end, Graded)
    assert seen == [f"key={SECRET}\nend\n"]
    assert "workspace/w.txt" not in completion.timing.masked


async def test_an_escaped_letter_hides_no_secret_in_a_row(tmp_path: Path) -> None:
    hidden = json.dumps({"verdict": "fail", "ext": {"said": "?"}}).replace("?", "\\u0073" + SECRET[1:])
    run = begin(tmp_path, lambda folders: None, scores(hidden))

    completion = await run.carry_out()

    assert isinstance(completion.end, Graded)
    assert completion.end.ext == {"said": "[masked:KEY]"}
    assert b"0123456789" not in (run.folders.out / "benchmark_score.json").read_bytes()


async def test_what_a_cut_off_try_left_is_searched_when_the_next_one_begins(tmp_path: Path) -> None:
    run = begin(tmp_path, leave_everywhere)
    scratch = run.folders.scratch / "agent-home"
    scratch.mkdir(parents=True)
    (scratch / ".config").write_text(SECRET)

    completion = await run.carry_out()

    assert (run.folders.root.with_name("1.cut-1") / "scratch/agent-home/.config").exists()
    assert find_leaks(tmp_path) == []
    assert completion.timing.masked["1.cut-1/scratch/agent-home/.config"] == 1


async def test_what_can_not_be_collected_is_searched_all_the_same(tmp_path: Path) -> None:
    def leave(folders: AttemptFolders) -> None:
        leave_everywhere(folders)
        folders.out.rename(folders.root / "elsewhere")
        folders.out.symlink_to("elsewhere")

    completion = await begin(tmp_path, leave).carry_out()

    assert isinstance(completion.end, Failed)
    assert find_leaks(tmp_path) == []
    assert any(name.endswith("/w.txt") for name in completion.timing.masked)


async def test_what_a_cancelled_attempt_leaves_is_searched(tmp_path: Path) -> None:
    working = asyncio.Event()

    def leave(folders: AttemptFolders) -> None:
        leave_everywhere(folders)
        asyncio.get_running_loop().call_soon(working.set)

    async def grade(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        await asyncio.Event().wait()
        raise AssertionError

    run = begin(tmp_path, leave, grade)  # type: ignore[arg-type]  # a script may be awaited
    task = asyncio.create_task(run.carry_out())
    await working.wait()
    while "grader" not in [phase.name for phase in run.phases]:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (run.folders.workspace / "w.txt").exists()
    assert find_leaks(tmp_path) == []


def carried_out(run: Attempt) -> Completion:
    return asyncio.run(run.carry_out())


@pytest.mark.parametrize("secret_at", range(0, 60, 7))
def test_a_log_is_not_cut_within_a_secret(tmp_path: Path, secret_at: int) -> None:
    from labrunner.trial.collecting.collection import LOG_HEAD, LOG_TAIL

    def talk(folders: AttemptFolders) -> None:
        said = bytearray(b"-" * (LOG_HEAD + LOG_TAIL + 500))
        for cut in (LOG_HEAD, len(said) - LOG_TAIL):
            start = cut - 30 + secret_at
            said[start : start + len(RAW)] = RAW
        (folders.logs / "agent.stdout").write_bytes(said)

    run = begin(tmp_path, talk)
    carried_out(run)

    kept = (run.folders.logs / "agent.stdout").read_bytes()
    assert b"bytes left out here" in kept
    assert not any(RAW[at : at + 4] in kept for at in range(len(RAW) - 4))
