from labrunner.analysis.judging.declarations import about_declarations
from labrunner.analysis.report import make_report
from labrunner.analysis.sums.tally import Declared, Tally
from labrunner.experiment.resolved import DeclaredMetric
from tests.kit.analysis.trial_rows import graded


def told(declared: Declared, *metrics: str) -> str:
    tally = Tally({f"t{n}": None for n in range(6)}, declared=declared)
    for n in range(6):
        tally.add(graded("a", f"t{n}", value=3.0 + n, metric=metrics[n % len(metrics)]))
    found = " ".join(caution.text for caution in about_declarations(list(tally.variants.values())))
    # What is told stands among the warnings of the run.
    assert all(each in " ".join(map(str, make_report(tally, {"a": 6}).cautions)) for each in found.split(" "))
    return found


def test_tasks_that_do_not_agree_which_way_is_better_are_told() -> None:
    assert told(frozenset({DeclaredMetric(name="s", better="lower"), None}), "s") == (
        "tasks do not agree which way `s` is better (lower is better and nothing declared): what is averaged "
        "is whether they pass; declare one `better` for all"
    )


def test_tasks_that_do_not_agree_where_a_scale_ends_are_told() -> None:
    one, other = DeclaredMetric(name="s", min=0.0, max=10.0), DeclaredMetric(name="s", min=0.0, max=100.0)
    said = told(frozenset({one, other}), "s")
    assert said.startswith(
        "tasks do not agree where `s` ends (higher is better, min 0, max 10 and higher is "
    )
    assert "nothing bounds what a trial without a grade would" in told(frozenset({one, None}), "s")


def test_trials_that_name_different_metrics_are_told() -> None:
    assert told(frozenset({None}), "s", "t") == (
        "trials are scored by `s` and `t`: what is averaged is whether they pass"
    )


def test_where_tasks_agree_nothing_is_told() -> None:
    scale = DeclaredMetric(name="s", better="lower", min=0.0, max=10.0)
    for declared in (frozenset({scale}), frozenset({None})):
        assert told(declared, "s") == ""
    # What is declared of a metric that nobody scores by changes nothing.
    assert told(frozenset({None, DeclaredMetric(name="other", better="lower")}), "s") == ""
