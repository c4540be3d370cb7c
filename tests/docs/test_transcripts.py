"""What pages show of a terminal is what a reader gets."""

from pathlib import Path

import pytest

from labrunner.sandbox.bubblewrap.program import works_here
from tests.kit.docs.pages import fences, name, pages
from tests.kit.docs.transcripts import Session, Step, confused, is_like, replay

SHOWN = [
    page for page in pages() if any(fence.language == "console" for fence in fences(page.read_text("utf-8")))
]


@pytest.mark.bwrap
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", SHOWN, ids=name)
def test_a_page_shows_what_its_commands_write(page: Path, tmp_path: Path) -> None:
    works, why = works_here()
    if not works:
        pytest.skip(why)
    with Session(tmp_path) as session:
        replayed = list(replay(page, session))
    for _, done in replayed:
        for step, found in done:
            assert is_like(step.shown, found), (
                f"`{step.command}` wrote:\n{found}\n\nscripts/docs writes it anew"
            )
    assert not confused(each for _, done in replayed for each in done), "scripts/docs writes it anew"


def test_ids_times_and_lines_left_out_do_not_matter_but_words_do() -> None:
    shown = "run 2026-11-15T04-00-07_hello_6maVd9wF: 6 trials\n…\nfinished in 0:01\n…"
    found = "run 2027-01-02T03-04-05_hello_abcdefgh: 6 trials\n1/6  2 running\nx\ny\nfinished in 12:34"
    assert is_like(shown, found)
    assert not is_like(shown, found.replace("6 trials", "7 trials"))
    assert not is_like(shown, found.replace("finished", "cancelled"))


def test_a_page_calls_one_run_by_one_id() -> None:
    ran, looked = "run 2026-11-15T04-00-07_hello_6maVd9wF: begun", "files 2026-11-15T04-00-07_hello_6maVd9wF"
    now = "2027-01-02T03-04-05_hello_abcdefgh"
    wrote = f"run {now}: begun", f"1/6  2 running\nfiles {now}"

    def steps(*shown: str) -> list[tuple[Step, str]]:
        return [(Step(command="x", shown=each), found) for each, found in zip(shown, wrote, strict=True)]

    assert not confused(steps(ran, looked))
    assert confused(steps(ran, looked.replace("6maVd9wF", "7ttd5GNb")))
    other = f"files {now.replace('abcdefgh', 'zzzzzzzz')}"
    assert confused([*steps(ran, looked), (Step(command="x", shown=looked), other)])
