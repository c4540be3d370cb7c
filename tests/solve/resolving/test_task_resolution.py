"""From tasks to experiments: digests, samples, what is recorded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labrunner.errors import InputError
from labrunner.experiment import codec
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment
from labrunner.solve.library.scorers import includes, match
from labrunner.solve.library.solvers import generate, system_message
from labrunner.solve.models.asking import Model
from labrunner.solve.resolving.loading import load_tasks
from labrunner.solve.resolving.sample_rows import read_sample, setup_section
from labrunner.solve.resolving.task import Task
from labrunner.solve.resolving.task_resolution import resolve_task
from labrunner.solve.values.config import GenerateConfig
from labrunner.solve.values.messages import ChatMessageSystem, ChatMessageUser
from labrunner.solve.values.sample import Sample
from tests.kit.solve.authoring import make_task, samples, write_task

MODEL = Overrides(model="mock/echo")


def resolve(task: Task | None = None, overrides: Overrides = MODEL) -> Experiment:
    return resolve_task(task or make_task(), overrides).experiment


def variant_digest(**fields: Any) -> str:
    return resolve(make_task(**fields)).variants[0].digest


def task_digests(dataset: list[Sample]) -> list[str]:
    return [task.digest for task in resolve(make_task(dataset)).tasks]


def test_a_task_is_the_same_question_in_every_process_and_place() -> None:
    assert resolve().digest == resolve().digest
    assert resolve().digest == "sha256:" + resolve().digest[7:]


def test_what_shapes_answers_changes_the_variant() -> None:
    plain = variant_digest()
    assert variant_digest(solver=[system_message("Be brief."), generate()]) != plain
    assert variant_digest(solver=generate(max_tokens=5)) != plain
    assert variant_digest(scorer=match()) != plain
    assert variant_digest(scorer=includes(ignore_case=False)) != plain
    assert variant_digest(message_limit=5) != plain
    assert variant_digest(config=GenerateConfig(temperature=0.5)) != plain
    other = resolve(make_task(), replace(MODEL, model="mock/say=x")).variants[0]
    assert other.digest != plain


def test_policy_and_patience_change_no_digest() -> None:
    plain = resolve()
    patient = replace(MODEL, max_connections=3, max_retries=9, request_timeout_s=5.0, max_concurrency=2)
    assert resolve(make_task(), patient).digest == plain.digest
    assert resolve(make_task(fail_on_error=0.5, retry_on_error=3)).digest == plain.digest
    config = GenerateConfig(max_connections=7, timeout=3.0)
    assert resolve(make_task(config=config)).digest == plain.digest
    assert resolve(make_task(config=config)).policy.max_connections == 7


def test_the_content_of_a_template_counts_and_not_its_name(tmp_path: Path) -> None:
    path = tmp_path / "system.txt"
    path.write_text("Be brief.")
    by_file = variant_digest(solver=[system_message(str(path)), generate()])
    assert by_file == variant_digest(solver=[system_message("Be brief."), generate()])
    path.write_text("Be long.")
    assert variant_digest(solver=[system_message(str(path)), generate()]) != by_file


def test_a_samples_own_content_is_its_digest() -> None:
    plain = task_digests([Sample(input="q", target="a")])
    assert task_digests([Sample(input="q", target="b")]) != plain
    assert task_digests([Sample(input="q", target="a", metadata={"k": 1})]) != plain
    assert task_digests([Sample(input="q", target="a", choices=["x"])]) != plain
    assert task_digests([Sample(input="q", target="a", files={"f": "x"})]) != plain
    assert task_digests([Sample(input="q", target="a"), Sample(input="other")])[:1] == plain


def test_the_file_of_a_task_function_is_part_of_the_question(tmp_path: Path) -> None:
    body = "@task\ndef one(n: int = 1):\n    return Task(dataset=[Sample(input='q')], scorer=includes())\n"
    file = write_task(tmp_path, body)

    def digest(**arguments: object) -> str:
        return resolve(load_tasks(str(file), arguments)[0]).variants[0].digest

    first = digest()
    assert digest(n=2) != first
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "task.py").write_text(file.read_text())
    assert resolve(load_tasks(str(moved / "task.py"))[0]).variants[0].digest == first
    file.write_text(file.read_text() + "\n# more\n")
    assert digest() == first
    file.write_text(file.read_text() + "\nmore = 1\n")
    assert digest() != first


def test_a_resolved_task_survives_its_record() -> None:
    experiment = resolve(make_task([Sample(input="q", target=["a"], metadata={"k": 1}, files={"f": "$x"})]))
    lines = list(codec.task_lines(experiment))
    assert codec.from_record(codec.to_record(experiment), lines) == experiment


@pytest.mark.parametrize(
    "sample",
    [
        Sample(input="plain", target="t", id="1"),
        Sample(input="q", target=["a", "b"], choices=["x", "y"], id="c", metadata={"deep": {"k": [1]}}),
        Sample(input=[ChatMessageSystem("s"), ChatMessageUser("u")], id="m"),
    ],
)
def test_a_sample_comes_back_from_its_row(sample: Sample) -> None:
    found = read_sample(resolve(make_task([sample])).tasks[0])
    assert found == replace(sample, metadata=sample.metadata or {})


def test_files_are_content_sources_or_data(tmp_path: Path) -> None:
    (tmp_path / "source.txt").write_text("from a file")
    files = {
        "a": "content",
        "b": str(tmp_path / "source.txt"),
        "c": "data:text/plain;base64,aGVsbG8=",
        "d": "data:,a%20b",
    }
    found = {each.path: each for each in resolve(make_task([Sample(input="q", files=files)])).tasks[0].files}
    assert (found["a"].content, found["c"].content, found["d"].content) == ("content", "hello", "a b")
    assert found["b"].source is not None
    with pytest.raises(InputError, match="holds no text"):
        resolve(make_task([Sample(input="q", files={"a": "data:;base64,/w=="})]))


def test_scripts_are_run_by_whom_they_name() -> None:
    assert setup_section("echo $HOME")["command"] == ["/bin/sh", "-c", "echo $$HOME"]
    script = "#!/usr/bin/env python3\nprint(1)\n"
    assert setup_section(script)["command"] == ["/usr/bin/env", "python3", "-c", script]


def test_trials_that_only_wait_are_not_bound_by_this_machine() -> None:
    assert resolve().policy.max_concurrency == 20
    assert resolve(make_task(), replace(MODEL, max_connections=200)).policy.max_concurrency == 400
    assert resolve(make_task(), replace(MODEL, max_concurrency=3)).policy.max_concurrency == 3
    assert resolve(make_task(sandbox="process")).policy.max_concurrency == "auto"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"metadata": {"x": object()}}, "metadata of task task must be JSON"),
        ({"dataset": [Sample(input="q", metadata={"x": {1, 2}})]}, "metadata of sample 1 must be JSON"),
        ({"dataset": [Sample(input=3)]}, "input of sample 1 must be text or messages, found int"),  # type: ignore[arg-type]
        ({"dataset": [Sample(input="q", sandbox="docker")]}, "sandbox of sample 1 may name cpus"),
        ({"dataset": []}, "holds no task"),
        ({"epochs": 0}, "epochs: must be a whole number from 1 on, found the number 0"),
        ({"fail_on_error": 0}, "fail_on_error"),
        ({"retry_on_error": -1}, "retry_on_error"),
    ],
)
def test_what_can_not_be_run_is_told_before_it_is(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(Exception, match=problem):
        resolve(make_task(**fields))


def test_a_model_given_as_an_object_is_recorded_by_its_name() -> None:
    model = Model("mock/echo", GenerateConfig(seed=3))
    experiment = resolve_task(make_task(samples("a")), Overrides(), model).experiment
    program = experiment.variants[0].program
    assert program is not None
    assert (program.model, program.config) == ("mock/echo", {"seed": 3})
    assert experiment.variants[0].id == "mock/echo"


@pytest.mark.parametrize(
    "text", ["raise SystemExit(7)", "@task\ndef t():\n    raise SystemExit(7)", "raise BaseException('x')"]
)
def test_a_file_that_tries_to_end_the_program_is_refused_in_words(tmp_path: Path, text: str) -> None:
    file = tmp_path / "leaving.py"
    file.write_text(f"from labrunner import task\n{text}\n")
    with pytest.raises(InputError, match=r"leaving.py.*(SystemExit: 7|BaseException: x)"):
        load_tasks(str(file))
