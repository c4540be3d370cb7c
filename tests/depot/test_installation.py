"""Agents are installed once, whole or not at all, and are what they were."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from labrunner.depot.launchers import write_launchers
from labrunner.depot.package_tools import InstallFailed
from labrunner.experiment.agents.agent_file import InstallPart
from labrunner.experiment.agents.installed import Release
from tests.kit.cli.calling import LAB, environment, lab
from tests.kit.depot.packages import write_named_experiment, write_npm_agent

USE = "use: ./obedient.yaml, model: main/gpt-5"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_npm_agent(tmp_path, ("1.0.0", "2.0.0"))
    return write_named_experiment(tmp_path, USE)


def trees(place: Path) -> list[Path]:
    return sorted((place / "cache" / "labrunner" / "agents" / "trees").glob("*"))


def test_a_run_installs_what_is_missing_and_the_next_one_finds_it(place: Path) -> None:
    first = lab("run", "--run-id", "one", cwd=place)
    assert first.code == 0, first.err
    assert "installing obedient==1.0.0" in first.err
    assert "installed obedient==1.0.0: " in first.err
    again = lab(
        "run", "--run-id", "two", cwd=place, env={"PATH": "/usr/bin:/bin", "npm_config_offline": "true"}
    )
    assert again.code == 0, again.err
    assert "install" not in again.err
    [tree] = trees(place)
    assert sorted(path.name for path in tree.iterdir()) == ["bin", "node_modules"]


def test_an_agent_is_told_its_model_inside(place: Path) -> None:
    assert lab("run", "--run-id", "one", cwd=place).code == 0
    [workspace] = (place / ".lab/runs/one/trials").glob("*/1/workspace")
    address = (workspace / "address.txt").read_text()
    assert address.startswith("http://127.0.0.1:")
    assert address.endswith("/main/v1")
    assert (workspace / "said.txt").read_text() == f'{{"url": "{address}", "price": "$1"}}'
    assert (workspace.parent / "logs/agent.stdout").read_text() == "1.0.0 --model=gpt-5 --end\n"


def test_without_installing_a_missing_agent_is_refused(place: Path) -> None:
    for words in (("run", "--no-install"), ("plan",), ("doctor",)):
        answer = lab(*words, cwd=place)
        assert answer.code == 2
        assert (
            "not installed on this host: obedient==1.0.0; try: lab agents install obedient.yaml==1.0.0"
            in answer.err
        )
    assert not (place / "cache").exists()


def test_what_is_to_be_typed_for_a_missing_agent_installs_it(place: Path) -> None:
    (place / "below").mkdir()
    refused = lab("run", "--no-install", "../experiment.yaml", cwd=place / "below")
    words = refused.err.strip().rpartition("; try: lab ")[2].split()
    assert words == ["agents", "install", "../obedient.yaml==1.0.0"]
    assert lab(*words, cwd=place / "below").code == 0
    assert lab("run", "--no-install", "../experiment.yaml", cwd=place / "below").code == 0


def test_two_releases_are_two_variants_side_by_side(place: Path) -> None:
    variants = "variants: [{id: old}, {id: new, agent: {version: 2.0.0}}]"
    write_named_experiment(place, USE, variants)
    for release in ("./obedient.yaml", "./obedient.yaml==2.0.0"):
        assert lab("agents", "install", release, cwd=place).code == 0
    old, new = lab("plan", "--json", cwd=place).json()["experiment"]["variants"]
    assert (old["agent"]["named"]["version"], new["agent"]["named"]["version"]) == ("1.0.0", "2.0.0")
    assert old["digest"] != new["digest"]
    assert old["agent"]["dir"]["digest"] != new["agent"]["dir"]["digest"]
    assert len(trees(place)) == 2
    assert lab("run", "--run-id", "both", cwd=place).code == 0
    told = " ".join(lab("compare", "both", cwd=place).out.split())
    assert f"old obedient 1.0.0, main/gpt-5, {old['agent']['dir']['digest'][:19]}" in told
    assert f"new obedient 2.0.0, main/gpt-5, {new['agent']['dir']['digest'][:19]}" in told
    assert lab("agents", "remove", "obedient==1.0.0", cwd=place).code == 0
    assert lab("agents", "list", "--json", cwd=place).json()["installed"][0]["version"] == "2.0.0"
    assert len(trees(place)) == 1


def test_a_changed_tree_is_refused(place: Path) -> None:
    assert lab("agents", "install", "./obedient.yaml", cwd=place).code == 0
    [tree] = trees(place)
    (tree / "node_modules/obedient/run.sh").write_text("#!/bin/sh\necho evil\n")
    answer = lab("run", cwd=place)
    assert answer.code == 2
    assert "its files were changed; lab agents remove obedient==1.0.0, then install it again" in answer.err


def test_a_check_tells_of_every_agent_that_is_not_what_it_was(place: Path) -> None:
    for release in ("./obedient.yaml", "./obedient.yaml==2.0.0"):
        assert lab("agents", "install", release, cwd=place).code == 0
    assert lab("agents", "list", "--check", cwd=place).code == 0
    installed = lab("agents", "list", "--json", cwd=place).json()["installed"]
    gone, changed = (Path(each["path"]) for each in installed)
    shutil.rmtree(gone)
    (changed / "node_modules/obedient/run.sh").write_text("#!/bin/sh\necho evil\n")
    answer = lab("agents", "list", "--check", cwd=place)
    assert answer.code == 2
    assert "obedient==1.0.0 can't be read: No such file or directory; lab agents remove" in answer.err
    assert "its files were changed; lab agents remove obedient==2.0.0" in answer.err
    assert "claude-code" in answer.out


def test_a_tree_that_is_only_touched_is_still_the_same(place: Path) -> None:
    assert lab("agents", "install", "./obedient.yaml", cwd=place).code == 0
    [tree] = trees(place)
    os.utime(tree / "node_modules/obedient/run.sh", (1, 1))
    assert lab("plan", cwd=place).code == 0


def test_a_package_manager_that_fails_is_quoted(place: Path) -> None:
    answer = lab("agents", "install", "./obedient.yaml==9.9.9", cwd=place)
    assert answer.code == 1
    assert "installing obedient==9.9.9 from npm: npm ended with" in answer.err
    assert "npm error" in answer.err
    assert "npm warn" not in answer.err
    assert lab("agents", "list", "--json", cwd=place).json()["installed"] == []
    assert trees(place) == []


@pytest.mark.parametrize("version", ["latest", "../../1", "^1", "1 2"])
def test_a_version_that_is_no_release_is_refused(place: Path, version: str) -> None:
    told = f"must be one release, such as 1.2.3, found '{version}'"
    answer = lab("agents", "install", f"./obedient.yaml=={version}", cwd=place)
    assert (answer.code, told in answer.err) == (2, True)
    write_named_experiment(place, f'{USE}, version: "{version}"')
    answer = lab("run", cwd=place)
    assert (answer.code, told in answer.err) == (2, True)
    assert not (place / "cache").exists()


def test_a_program_that_packages_do_not_have_is_told(place: Path) -> None:
    file = place / "obedient.yaml"
    file.write_text(file.read_text().replace("run.sh", "walk.sh"))
    answer = lab("agents", "install", "./obedient.yaml", cwd=place)
    assert answer.code == 1
    assert "have no file 'node_modules/obedient/walk.sh'" in answer.err


def test_an_agent_runs_in_a_folder_with_a_quote_in_its_path(tmp_path: Path) -> None:
    place = write_named_experiment(tmp_path / "it's", "use: ./it.yaml")
    (place / "it.yaml").write_text("command: [cp, $prompt_path, $workspace/said.txt]\nfiles: {x: y}\n")
    assert lab("run", "--run-id", "one", cwd=place).code == 0
    [said] = (place / ".lab/runs/one/trials").glob("*/1/workspace/said.txt")
    assert said.read_text().startswith("cat $HOME")


@pytest.mark.parametrize(
    "change",
    [
        ("obedient, --model", "disobedient, --model"),
        ("#!/bin/sh", "#!/no/such/shell"),
        (".obedient/rules.md", "x/y"),
    ],
    ids=["no such program", "no interpreter", "no file in its home"],
)
def test_an_agent_that_can_not_be_started_is_an_error_of_the_setup_and_no_grade(
    place: Path, change: tuple[str, str]
) -> None:
    for file in (place / "obedient.yaml", place / "pkg-1.0.0/run.sh"):
        file.write_text(file.read_text().replace(*change))
    blocked = "system_prompt: kind, files: {x: y}" if change[1] == "x/y" else "effort: low"
    write_named_experiment(place, f"{USE}, {blocked}")
    lab("run", "--run-id", "one", cwd=place)
    [row] = lab("query", "one", "--json", "select verdict, cause from trials", cwd=place).json()
    assert (row["verdict"], row["cause"]) == (None, "setup")


@pytest.mark.parametrize(
    "program", ["PLACE/mine", "node_modules/../../mine", "{glibc: bin/x, musl: ../mine}"]
)
def test_a_program_outside_of_the_tree_is_refused_and_stays_what_it_was(place: Path, program: str) -> None:
    mine = place / "mine"
    mine.write_text("x")
    mine.chmod(0o600)
    file = place / "obedient.yaml"
    written = program.replace("PLACE", str(place))
    file.write_text(file.read_text().replace("node_modules/obedient/run.sh", written))
    answer = lab("agents", "install", "./obedient.yaml", cwd=place)
    assert answer.code == 2
    assert "leaves the agent's folder; write a relative path without '..'" in answer.err
    assert mine.stat().st_mode & 0o777 == 0o600


def test_a_program_that_a_package_links_to_from_outside_is_refused(place: Path) -> None:
    (place / "mine").write_text("x")
    (place / "mine").chmod(0o600)
    tree = place / "tree"
    (tree / "node_modules/obedient").mkdir(parents=True)
    (tree / "node_modules/obedient/run.sh").symlink_to(place / "mine")
    install = InstallPart(npm="obedient", programs={"obedient": "node_modules/obedient/run.sh"})
    with pytest.raises(InstallFailed, match="lies outside of what is installed"):
        write_launchers(Release(name="obedient", version="1", install=install, use="obedient"), tree)
    assert (place / "mine").stat().st_mode & 0o777 == 0o600


@pytest.mark.crash
def test_a_killed_installation_is_none_and_can_be_made_again(place: Path) -> None:
    words = [LAB, "agents", "install", "./obedient.yaml"]
    with subprocess.Popen(
        words, cwd=place, env=environment(), stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()  # it says that it begins
        os.killpg(process.pid, signal.SIGKILL)
    assert lab("agents", "list", "--json", cwd=place).json()["installed"] == []
    for left in trees(place):
        os.utime(left, (1, 1))
    assert lab("agents", "install", "./obedient.yaml", cwd=place).code == 0
    assert [tree.name[0] != "." for tree in trees(place)] == [True]
    assert lab("run", cwd=place).code == 0


@pytest.mark.crash
@pytest.mark.parametrize("point", ["depot.forgotten", "depot.moved"])
def test_after_a_killed_removal_what_is_installed_next_is_whole(place: Path, point: str) -> None:
    assert lab("agents", "install", "./obedient.yaml", cwd=place).code == 0
    [tree] = trees(place)
    whole = sorted(path.name for path in tree.rglob("*"))
    assert lab("agents", "remove", "obedient", cwd=place, env={"LAB_DIE_AT": f"{point}:1"}).code != 0
    assert lab("agents", "list", "--json", cwd=place).json()["installed"] == []
    assert tree.exists() == (point == "depot.forgotten")
    assert lab("agents", "install", "./obedient.yaml", cwd=place).code == 0
    assert sorted(path.name for path in tree.rglob("*")) == whole


def test_a_tree_that_nobody_wrote_down_is_replaced_where_it_is_another(place: Path) -> None:
    assert lab("agents", "install", "./obedient.yaml", cwd=place).code == 0
    [tree] = trees(place)
    [line] = (tree.parents[1] / "installed").glob("*.json")
    line.unlink()
    (tree / "node_modules/obedient/run.sh").unlink()
    assert lab("agents", "install", "./obedient.yaml", cwd=place).code == 0
    assert (tree / "node_modules/obedient/run.sh").is_file()
    assert trees(place) == [tree]
    assert lab("run", cwd=place).code == 0
