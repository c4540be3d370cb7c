import pytest

from labrunner.experiment import codec
from labrunner.records.encoding import canonical
from tests.kit.experiment.authoring import SMALL, TASKS, Bench

ROWS = """tasks:
  - {id: a, input: {deep: [1, 2.5, null, {x: true}]}, target: null, group: g, tags: [t], metadata: {m: [1]}}
  - {id: b, input: x, setup: {command: make}, files: {f: "1"}, solution: "true", resources: {cpus: 1}}
  - {id: c, input: x, grader: {timeout_s: 1}}
"""


@pytest.mark.parametrize("fail_on_error", ["true", "false", "0.5", "1", "3"])
@pytest.mark.parametrize("max_concurrency", ["auto", "3"])
def test_an_experiment_survives_being_written_and_read(
    bench: Bench, fail_on_error: str, max_concurrency: str
) -> None:
    policy = f"fail_on_error: {fail_on_error}\nmax_concurrency: {max_concurrency}\norder: shuffled\n"
    variants = (
        "variants: [{id: v, bindings: {l: [1, null], f: 0.5}, agent: {error_exit_codes: {9: sandbox}}}]\n"
    )
    experiment = bench.load(SMALL.replace(TASKS, ROWS) + policy + variants)
    written = canonical.encode(codec.to_record(experiment))
    record = canonical.decode_plain(written)
    assert isinstance(record, dict)
    read = codec.from_record(record, list(codec.task_lines(experiment)))
    assert read == experiment
    assert canonical.encode(codec.to_record(read)) == written, "types survive too: true is no 1.0"


def test_a_record_holds_no_tasks_and_tasks_are_canonical_lines(bench: Bench) -> None:
    experiment = bench.load(SMALL.replace(TASKS, ROWS))
    assert "tasks" not in codec.to_record(experiment)
    lines = list(codec.task_lines(experiment))
    assert len(lines) == 3
    for line in lines:
        assert line.endswith(b"\n")
        assert canonical.encode_line(canonical.decode_plain(line)) == line


def test_tasks_that_shared_a_grader_share_it_again(bench: Bench) -> None:
    experiment = bench.load(SMALL.replace(TASKS, ROWS))
    first, second, third = codec.from_record(codec.to_record(experiment), codec.task_lines(experiment)).tasks
    assert first.grader is second.grader
    assert first.grader is not third.grader
