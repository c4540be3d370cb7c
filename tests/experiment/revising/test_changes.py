import pytest

from labrunner.experiment.resolving.load import Overrides
from labrunner.experiment.revising.changes import changes
from tests.kit.experiment.authoring import SMALL, TASKS, Bench

VARIANTS = SMALL + "variants: [{id: x, bindings: {m: 1}}, {id: y}]\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (VARIANTS, VARIANTS + "fail_on_error: false\ndescription: other\n", ()),
        (VARIANTS, VARIANTS + "replications: 4\n", ("replications was 1, now 4",)),
        (
            VARIANTS,
            VARIANTS + "order: shuffled\nseed: 2\n",
            ("order was balanced, now shuffled", "seed was 0, now 2"),
        ),
        (VARIANTS, VARIANTS.replace("id: b", "id: c"), ("tasks added: c", "tasks removed: b")),
        (VARIANTS, VARIANTS.replace("do b", "do it"), ("input, prompt changed for tasks: b",)),
        (VARIANTS, VARIANTS.replace("[grade]", "[judge]"), ("grader.command changed for tasks: a, b",)),
        (VARIANTS, VARIANTS.replace("--fast", "--slow"), ("agent.command changed for variants: x, y",)),
        (VARIANTS, VARIANTS.replace("m: 1", "m: 2"), ("bindings changed for variants: x",)),
        (VARIANTS, VARIANTS.replace(", {id: y}", ""), ("variants removed: y",)),
        (
            VARIANTS,
            VARIANTS + "sandbox: {cpus: 1}\n",
            ("sandbox.cpus, sandbox.asked changed for variants: x, y",),
        ),
        (
            VARIANTS,
            VARIANTS.replace(TASKS, "tasks: [{id: b, input: do b}, {id: a, input: do a}]\n"),
            ("the order of the tasks changed",),
        ),
    ],
)
def test_what_changed_is_said_in_sentences(bench: Bench, old: str, new: str, said: tuple[str, ...]) -> None:
    assert changes(bench.load(old), bench.load(new)) == said


def test_a_changed_folder_is_said_to_have_changed(bench: Bench) -> None:
    overrides = Overrides(sets=(("agent.dir", "agent"),))
    before = bench.write(agent__run_sh="one").load(SMALL, overrides)
    after = bench.write(agent__run_sh="two").load(SMALL, overrides)
    assert changes(before, after) == ("agent.dir changed for variants: baseline",)
