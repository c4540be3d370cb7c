"""What a node needs of an experiment, and the same experiment where that was delivered."""

from dataclasses import replace
from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.executor.cluster.delivery import (
    WHOLE,
    find_parcels,
    pack_experiment,
    read_experiment,
    relocate,
)
from labrunner.executor.cluster.parcels import Unpacking
from labrunner.experiment.digests import digest_experiment, digest_task, digest_variant
from labrunner.experiment.resolved import Experiment, Folder, Solution, WorkspaceFile
from tests.kit.builders import make_agent, make_experiment, make_grader, make_task, make_variant


def folder(path: Path) -> Folder:
    return Folder(path=str(path), digest=f"sha256:{path.name}")


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    for name in ("agent", "grader", "solution"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.sh").write_text(name)
    (tmp_path / "work.tar.gz").write_bytes(b"packed")
    (tmp_path / "data.csv").write_text("a,b\n")
    grader = make_grader(dir=folder(tmp_path / "grader"))
    file = WorkspaceFile(path="data.csv", content=None, source=folder(tmp_path / "data.csv"))
    tasks = tuple(
        make_task(
            id=name,
            grader=grader,
            workspace=folder(tmp_path / "work.tar.gz"),
            files=(file,),
            solution=Solution(dir=str(tmp_path / "solution"), digest="sha256:s"),
        )
        for name in ("t1", "t2")
    )
    return make_experiment(
        tasks=tasks, variants=(make_variant(agent=make_agent(dir=folder(tmp_path / "agent"))),)
    )


def test_everything_that_is_named_is_delivered_once_and_found_there(
    tmp_path: Path, experiment: Experiment
) -> None:
    parcels = find_parcels(experiment)
    names = {"agent", "grader", "solution", "work.tar.gz", "data.csv"}
    assert {Path(path).name for path in parcels} == names
    there = {path: Path("/there") / parcel.whereabouts for path, parcel in parcels.items()}
    moved = relocate(experiment, there)
    one, two = moved.tasks
    assert one.grader is two.grader
    assert one.grader.dir == Folder(
        path=f"/there/{parcels[str(tmp_path / 'grader')].key}", digest="sha256:grader"
    )
    assert one.workspace is not None
    assert one.workspace.path == f"/there/{parcels[str(tmp_path / 'work.tar.gz')].key}/work.tar.gz"
    assert one.files[0].source is not None
    assert one.files[0].source.path.endswith("/data.csv")
    assert one.solution is not None
    assert one.solution.dir == f"/there/{parcels[str(tmp_path / 'solution')].key}"
    assert str(tmp_path) not in repr(moved)


def test_where_things_lie_on_a_node_is_in_no_digest(experiment: Experiment) -> None:
    moved = relocate(
        experiment, {path: Path("/there") / p.key for path, p in find_parcels(experiment).items()}
    )
    assert digest_experiment(moved) == digest_experiment(experiment)
    assert digest_variant(moved.variants[0]) == digest_variant(experiment.variants[0])
    assert [digest_task(each) for each in moved.tasks] == [digest_task(each) for each in experiment.tasks]


def test_rights_make_another_parcel(tmp_path: Path, experiment: Experiment) -> None:
    before = find_parcels(experiment)[str(tmp_path / "agent")].key
    (tmp_path / "agent" / "run.sh").chmod(0o600)
    assert find_parcels(experiment)[str(tmp_path / "agent")].key != before


def test_what_is_not_there_any_more_is_named(tmp_path: Path, experiment: Experiment) -> None:
    (tmp_path / "data.csv").unlink()
    with pytest.raises(InputError, match=r"data\.csv: can't be read any more"):
        find_parcels(experiment)


def test_an_experiment_is_read_back_as_it_was(tmp_path: Path, experiment: Experiment) -> None:
    parcel = pack_experiment(experiment)
    (tmp_path / "there").mkdir()
    unpacking = Unpacking(tmp_path / "there")
    for piece in parcel.pieces():
        unpacking.take(piece)
    unpacking.finish()
    unpacking.close()
    assert (tmp_path / "there" / WHOLE).is_file()
    assert read_experiment(tmp_path / "there") == experiment
    assert pack_experiment(replace(experiment, name="other")).key != parcel.key
