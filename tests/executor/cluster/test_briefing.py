"""What a node is told and given before it begins."""

from pathlib import Path

import pytest

from labrunner.executor.cargo import Cargo
from labrunner.executor.cluster.briefing import Briefing, send_tapes
from labrunner.executor.cluster.parcels import Unpacking
from labrunner.executor.cluster.rayport import RayWorker
from labrunner.executor.cluster.tidings import encode
from labrunner.experiment.resolved import ModelEntry
from labrunner.experiment.run_policy import ReplayMode
from labrunner.experiment.schedule import Slot
from labrunner.trial.assignment import Assignment, TrialContext, set_scene
from labrunner.trial.tapes import list_delivered
from tests.kit.builders import make_agent, make_experiment, make_grader, make_policy, make_task, make_variant

MINE = Assignment(
    token="t" * 32, slot=Slot(schedule_idx=0, variant_idx=0, task_idx=0, repl_idx=0), trial_id="x", attempt=1
)


class Taker(RayWorker):
    """A worker that unpacks the tapes that it is sent."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._unpacking = Unpacking(folder)

    async def call(self, name: str, *words: object) -> bytes:
        assert name == "receive_tapes"
        match words:
            case (_, bytes() as piece):
                self._unpacking.take(piece)
            case (_, None):
                self._unpacking.finish()
                self._unpacking.close()
            case _:
                pytest.fail(f"was told {words}")
        return encode(None)


@pytest.mark.parametrize(
    ("mode", "sent"), [("reuse", ["cut off last", "cut off first", "recorded"]), ("strict", ["recorded"])]
)
async def test_calls_of_an_attempt_that_was_cut_off_here_are_sent_before_all_others(
    tmp_path: Path, mode: ReplayMode, sent: list[str]
) -> None:
    trials, recorded = tmp_path / "run/trials", tmp_path / "recorded"
    for folder, text in (
        (trials / "x/1", "cut off last"),  # nobody has set it aside yet
        (trials / "x/1.cut-1", "cut off first"),
        (recorded / "trials/x/1", "recorded"),
    ):
        folder.mkdir(parents=True)
        (folder / "calls.jsonl").write_text(text)
    experiment = make_experiment(policy=make_policy(replay=str(recorded), replay_mode=mode))
    context = TrialContext(experiment=experiment, run_id="r", trials_dir=trials, host="h", secrets={})
    await send_tapes(Taker(tmp_path / "there"), set_scene(context, MINE))
    there = list_delivered(tmp_path / "there")
    assert [(folder / "calls.jsonl").read_text() for folder in there] == sent


def test_only_secrets_that_are_declared_and_keys_of_models_leave_this_machine(tmp_path: Path) -> None:
    model = ModelEntry(name="main", dialect="openai", key="MODEL_KEY")
    agent = make_agent(secrets=("TOKEN", "UNSET"))
    experiment = make_experiment(
        variants=(make_variant(agent=agent, models=(model,)),),
        tasks=(make_task(grader=make_grader(secrets=("OF_GRADER",))),),
    )
    given = {"TOKEN": "t", "OF_GRADER": "g", "MODEL_KEY": "m"}
    environment = {**given, "DATABASE_PASSWORD": "of nobody", "PATH": "/bin"}
    (tmp_path / "trials").mkdir()
    context = TrialContext(
        experiment=experiment, run_id="r", trials_dir=tmp_path / "trials", host="h", secrets=environment
    )
    assert Briefing.of(context).secrets == given
    cargo = Cargo(carrier="m:a", words=b"", files={}, secrets={"its own": "c"})
    assert Briefing.of(context, cargo).secrets == {**given, "its own": "c"}
