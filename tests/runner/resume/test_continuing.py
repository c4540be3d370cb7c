"""Going on with a run, as the engine does it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from labrunner.errors import InputError
from labrunner.experiment.options.overrides import Overrides
from labrunner.records.encoding import canonical
from labrunner.records.glance import TrialGlance
from labrunner.records.seals import seal
from labrunner.runner.leftovers.recounting import find_finished
from labrunner.runner.resume.continuing import continue_run
from labrunner.runner.sitting.sitting import Live
from labrunner.runner.sitting.stopping import Interrupted
from labrunner.runner.start import RunOptions
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd
from labrunner.sandbox.fake import FakeMaker
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_run
from labrunner.store.writing.writer import RunWriter
from tests.kit.runner.running import Stage, answer, make_sums


async def test_what_was_put_in_a_runs_place_meanwhile_is_not_continued(tmp_path: Path) -> None:
    def stop(live: Live) -> None:
        live.stop.ask(Interrupted(signal_name="SIGINT"))

    end = await Stage(tmp_path, on_start=stop).run(make_sums())
    assert end.status.status == "cancelled"

    def put_a_report_there(checks: object) -> None:
        del checks
        report = msgspec.structs.replace(read_run(end.paths), recovered_from="elsewhere")
        end.paths.run.write_bytes(canonical.encode_line(seal(report)))

    async def play(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        return answer(phase, folders)

    async def look_away(live: Live) -> None:
        del live

    options = RunOptions(
        runs_dir=tmp_path,
        secrets={},
        make=lambda kind: FakeMaker(script=play),
        reread=lambda record, overrides: make_sums(),
        on_checks=put_a_report_there,
    )
    with pytest.raises(InputError, match="was replaced while it was being opened"):
        await continue_run(end.paths, options, Overrides(), look_away)
    assert end.paths.commits.read_bytes().count(b"\n") == end.status.counts.committed


async def test_what_earlier_sittings_finished_is_counted_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted_in: list[threading.Thread] = []

    def find_and_tell(paths: RunPaths, writer: RunWriter) -> Iterator[TrialGlance]:
        counted_in.append(threading.current_thread())
        return find_finished(paths, writer)

    # The real one, and where it was called: how long it blocks a loop depends on the machine.
    monkeypatch.setattr("labrunner.runner.sitting.sitting.find_finished", find_and_tell)
    await Stage(tmp_path).run(make_sums())
    assert len(counted_in) == 1
    assert counted_in[0] is not threading.main_thread()
