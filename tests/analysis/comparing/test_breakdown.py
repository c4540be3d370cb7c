from labrunner.analysis.comparing.breakdown import break_down
from tests.kit.analysis.arms import make_arm


def test_flaky_tasks_come_first_by_their_variance() -> None:
    arm = make_arm("a", {"t0": [1.0] * 4, "t1": [1.0, 0.0, 1.0, 0.0], "t2": [1.0, 1.0, 1.0, 0.0]})
    found = break_down([arm], {})
    assert [(each.task_id, each.passed, each.graded) for each in found.flaky] == [("t1", 2, 4), ("t2", 3, 4)]
    assert (found.flaky[0].variance, found.flaky_tasks) == (1 / 3, 2)
    assert (found.divided, found.tags) == ((), ())


def test_measured_scores_that_differ_a_little_make_no_task_flaky() -> None:
    scores = {"t0": [1.01, 1.02, 1.03], "t1": [1.2, 1.1, 1.4], "t2": [1.2, 0.0, 0.4]}
    found = break_down([make_arm("a", dict(scores), metric="points")], {})
    assert [(each.task_id, each.passed, each.graded) for each in found.flaky] == [("t2", 1, 3)]
    assert found.flaky_tasks == 1


def test_tasks_that_tell_variants_apart_come_first_by_how_far() -> None:
    arms = [
        make_arm("a", {"t0": [1.0, 1.0], "t1": [0.0, 0.0], "t2": [1.0, 0.0]}),
        make_arm("b", {"t0": [1.0, 1.0], "t1": [1.0, 1.0], "t2": [1.0, 1.0]}),
        make_arm("c", {"t0": [1.0, 1.0], "t1": [0.0, 1.0], "t2": [0.0, 1.0]}),
    ]
    found = break_down(arms, {}).divided
    assert [(each.task_id, each.lowest, each.low, each.highest, each.high) for each in found] == [
        ("t1", "a", 0.0, "b", 1.0),
        ("t2", "a", 0.5, "b", 1.0),
    ]


def test_every_tag_has_its_figures_and_all_comparisons_are_one_family() -> None:
    tags = {f"t{n}": ("easy",) if n < 8 else ("hard", "long") for n in range(16)}
    before = {f"t{n}": [float(n < 8)] * 2 for n in range(16)}
    after = {f"t{n}": [1.0] * 2 for n in range(16)}
    found = break_down([make_arm("a", dict(before)), make_arm("b", dict(after))], tags)
    assert [
        (each.tag, each.variant_id, each.tasks, each.observed, each.conclusion) for each in found.tags
    ] == [
        ("easy", "a", 8, 1.0, None),
        ("easy", "b", 8, 1.0, "no difference shown"),
        ("hard", "a", 8, 0.0, None),
        ("hard", "b", 8, 1.0, "better"),
        ("long", "a", 8, 0.0, None),
        ("long", "b", 8, 1.0, "better"),
    ]
    assert found.family == 3
    hard = found.tags[3]
    assert hard.p_adjusted == 3 * 2.0**-7
    assert hard.interval is not None


def test_a_tag_with_too_few_tasks_says_so() -> None:
    tags = {f"t{n}": ("rare",) for n in range(3)}
    arms = [make_arm(name, {f"t{n}": [value] for n in range(10)}) for name, value in (("a", 0.0), ("b", 1.0))]
    (_, other) = break_down(arms, tags).tags
    assert (other.conclusion, other.p_adjusted, other.difference) == ("too few tasks", None, 1.0)


def test_tags_beyond_the_first_twenty_are_counted() -> None:
    arm = make_arm("a", {f"t{n}": [1.0] for n in range(25)})
    found = break_down([arm], {f"t{n}": (f"tag{n}",) for n in range(25)})
    assert (len(found.tags), found.tags_left_out) == (20, 5)
