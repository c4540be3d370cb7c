import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from labrunner.cli.pieces import make_app
from labrunner.cli.plainwords import PlainCommand
from tests.kit.made_runs import Told, make_grid, write_run


def called(words: list[str], cls: type[Any] | None) -> tuple[object, ...]:
    """What a command was given, or how it was refused."""
    app, given = make_app(), []

    @app.command(cls=cls)
    def command(
        text: str,
        more: Annotated[list[str] | None, typer.Argument()] = None,
        kind: Annotated[Literal["one", "two"], typer.Option()] = "one",
        many: Annotated[list[str] | None, typer.Option()] = None,
        share: Annotated[float | None, typer.Option()] = None,
        place: Annotated[Path, typer.Option()] = Path("somewhere"),
        flag: Annotated[bool, typer.Option()] = False,
    ) -> None:
        given.append((text, more, kind, many, share, place, flag))

    code = 0
    try:
        app(args=words, prog_name="command")
    except SystemExit as ended:
        code = int(ended.code or 0)
    return (code, *given)


@pytest.mark.parametrize(
    "words",
    [
        ["a"],
        ["a", "b", "ü", "--kind", "two", "--many", "x", "--many", "y", "--flag"],
        ["ü", "--share", "0.5", "--place", "/", "--kind=one"],
        ["a", "--share", "much"],
        ["a", "--kind", "Two"],
        ["a", "--place", "nowhere"],
        ["\udcff", "b\udcff"],
        ["a", "--many", "\udcff"],
        [""],
        [],
        ["--help"],
        ["a", "--nonsense"],
    ],
)
def test_it_takes_and_refuses_what_typer_does(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    plain = (called(words, PlainCommand), capsys.readouterr())
    assert plain == (called(words, None), capsys.readouterr())


@pytest.mark.parametrize("words", [("show", "made"), ("query", "made", "select count(*) from trials")])
def test_looking_at_a_run_loads_no_pydantic(tmp_path: Path, words: tuple[str, ...]) -> None:
    write_run(tmp_path / ".lab" / "runs", make_grid(), lambda slot: Told(), run_id="made")
    code = (
        "import sys\n"
        "from labrunner.cli.main import run\n"
        f"assert run({list(words)!r}) == 0\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
