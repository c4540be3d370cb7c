from pathlib import Path

import pytest

from bench import figures, page
from bench.figures import Bar, Figure, Host, Result


def make_result(ratio: float) -> Result:
    return Result(
        bench="engine",
        measured_at="2026-01-02T03:04:05Z",
        sizes={"trials": 20_000},
        rounds=3,
        figures=(
            Figure(name="ours", value=2000, unit="trials/s"),
            Figure(name="ratio", value=ratio, unit="x", bar=Bar("at_most", 3)),
        ),
        samples={},
        host=Host(system="Linux x86_64", python="3.11.7", cpus=2, load=0.5),
    )


def test_the_page_shows_the_newest_result_and_keeps_what_stands_around_its_table(tmp_path: Path) -> None:
    figures.keep(make_result(9.0), tmp_path)
    figures.keep(make_result(1.5), tmp_path)
    file = tmp_path / "page.md"
    file.write_text(f"before\n{page.BEGIN}\nold figures\n{page.END}\nafter\n")
    page.fill(file, tmp_path)
    page.fill(file, tmp_path)
    text = file.read_text()
    assert text.startswith(f"before\n{page.BEGIN}\n\n| bench |")
    assert text.endswith(f"{page.END}\nafter\n")
    assert "| ours 2,000 trials/s | **1.5x** (<= 3x: met) |" in text
    assert "old figures" not in text
    assert "Measured 2026-01-02 on 2 cores" in text


def test_a_page_without_its_marks_is_left_alone(tmp_path: Path) -> None:
    figures.keep(make_result(1.5), tmp_path)
    file = tmp_path / "page.md"
    file.write_text("no marks here\n")
    with pytest.raises(SystemExit, match="expected the lines"):
        page.fill(file, tmp_path)
    assert file.read_text() == "no marks here\n"


def test_the_page_of_this_repository_has_its_marks() -> None:
    text = page.PAGE.read_text()
    assert text.index(page.BEGIN) < text.index(page.END)
