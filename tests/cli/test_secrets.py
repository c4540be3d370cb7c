"""Secrets that an agent writes down, through the real `lab`."""

from pathlib import Path

import pytest

from tests.kit.cli.calling import AGENT_SHOUTS, lab, write_experiment
from tests.kit.sandbox.kinds import KINDS

SECRET = "sk-live-0123456789abcdef"
LEAKS = (
    AGENT_SHOUTS
    + """
key = os.environ["KEY"]
workspace = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"])
out = pathlib.Path(os.environ["AGENTLAB_RESULT_PATH"]).parent
(workspace / "w.txt").write_text(key)
(workspace / key).write_text("its name")
(out / "traj.json").write_text('{"Authorization": "Bearer %s"}' % key)
(pathlib.Path(os.environ["AGENTLAB_EVENTS_PATH"]).parent / "cache").write_bytes(key.encode().hex().encode())
print(key)
"""
)


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_of_a_run_has_a_secret_and_the_person_is_told(tmp_path: Path, kind: str) -> None:
    write_experiment(tmp_path, sandbox=kind, agent=LEAKS)
    text = (tmp_path / "experiment.yaml").read_text().replace("dir: agent,", "dir: agent, secrets: [KEY],")
    (tmp_path / "experiment.yaml").write_text(text)

    ended = lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path, env={"KEY": SECRET})
    shown = lab("show", "x", "t0.baseline.0", cwd=tmp_path)

    assert ended.code == 0, ended.err
    root = tmp_path / ".lab"
    spellings = (SECRET.encode(), SECRET.encode().hex().encode())
    files = [path for path in root.rglob("*") if path.is_file()]
    assert [path for path in files if any(each in path.read_bytes() for each in spellings)] == []
    assert [path for path in root.rglob("*") if SECRET in path.name] == []
    assert "secrets were found in what 3 trials left, and masked" in ended.out + ended.err
    for name in ("workspace/w.txt", "out/traj.json", "state/cache", "logs/agent.stdout"):
        assert f"1 secret masked in {name}" in shown.out
    assert lab("verify", "x", cwd=tmp_path).code == 0


@pytest.mark.parametrize("where", ["workspace/answer.txt", "out/traj.json"])
def test_a_kept_folder_that_was_emptied_is_named(tmp_path: Path, where: str) -> None:
    write_experiment(tmp_path, agent=LEAKS.replace('os.environ["KEY"]', '"nothing"'))
    lab("run", "--run-id", "x", "--keep-workspace", "always", cwd=tmp_path)
    (hurt,) = tmp_path.glob(f".lab/runs/x/trials/t1*/1/{where}")
    hurt.write_text("")

    verified = lab("verify", "x", cwd=tmp_path)

    assert verified.code == 3
    assert f"{hurt.parent.name}: does not hold what was kept" in verified.out + verified.err
