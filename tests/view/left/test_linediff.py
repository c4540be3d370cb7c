"""What was changed in a text."""

import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from labrunner.files.strangers.sealing import TreeEntry
from labrunner.view.left.changetelling import ChangeTeller, Side
from labrunner.view.left.linediff import Effort, compare_lines, write_patch

lines = st.lists(st.sampled_from("abc"), max_size=12)


def longest_common(old: list[str], new: list[str]) -> int:
    row = [0] * (len(new) + 1)
    for line in old:
        before = row
        row = [0]
        for at, other in enumerate(new):
            row.append(before[at] + 1 if line == other else max(before[at + 1], row[-1]))
    return row[-1]


@given(lines, lines)
def test_edits_lead_from_one_to_the_other_and_there_are_no_more_than_needed(
    old: list[str], new: list[str]
) -> None:
    edits = compare_lines(old, new)
    assert [line for kind, line in edits if kind != "+"] == old
    assert [line for kind, line in edits if kind != "-"] == new
    changed = sum(kind != " " for kind, _ in edits)
    assert changed == len(old) + len(new) - 2 * longest_common(old, new)


def test_a_patch_shows_some_lines_around_and_leaves_the_others_out() -> None:
    old = [str(number) for number in range(1, 31)]
    new = [*old[:9], "ten", *old[10:29], "thirty", "more"]
    patch = write_patch("\n".join(old) + "\n", "\n".join(new), 100)
    assert patch.split("\n") == [
        "@@ -7,7 +7,7 @@",
        *(" 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"),
        "@@ -27,4 +27,5 @@",
        *(" 27", " 28", " 29", "-30", "+thirty", "+more (no newline at the end)"),
    ]
    assert write_patch("a\n", "a\n", 100) == ""
    assert write_patch("", "a\nb\nc\n", 2) == "@@ -1,0 +1,3 @@\n+a\n(more lines were changed)"


def test_texts_that_have_nothing_in_common_take_little_time() -> None:
    began = time.monotonic()
    compare_lines([f"a{n}" for n in range(50_000)], [f"b{n % 7}" for n in range(50_000)])
    assert time.monotonic() - began < 10


def test_many_comparisons_share_one_effort() -> None:
    old, new = [str(n) for n in range(100)], [str(n) for n in range(100, 200)]
    old[50] = new[50] = "same"
    effort = Effort(left=10_000)
    assert (" ", "same") in compare_lines(old, new, Effort())
    told = [compare_lines(old, new, effort) for _ in range(3)][-1]
    assert effort.left < 0
    assert told == [*(("-", line) for line in old), *(("+", line) for line in new)]


def test_the_files_of_a_page_share_one_effort() -> None:
    def make(word: str) -> Side:
        data = "".join(f"{word}{n}\n" for n in range(150)).encode()
        entry = TreeEntry(path="a.txt", kind="file", content=word, size=len(data))
        return Side(folder=Path(), entry=entry, data=data)

    teller = ChangeTeller(effort=Effort(left=100_000))
    told = [teller.tell(make("a"), make("b"), "changed") for _ in range(20)]
    assert -1_000 < teller.effort.left < 0
    assert len({each.patch for each in told if each is not None}) == 1
