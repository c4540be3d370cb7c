from pathlib import Path

import pytest

from labrunner.errors import InputError
from labrunner.experiment.env_file import read_env_file


def read(folder: Path, text: str) -> dict[str, str]:
    file = folder / ".env"
    file.write_text(text)
    return read_env_file(file)


def test_names_and_values_are_read_as_dotenv_does(tmp_path: Path) -> None:
    text = (
        "# a comment\n\nPLAIN=a=b c\n  export EXPORTED = x # and why\nSHARP=a#b\nEMPTY=\nNONE= # nothing\n"
        "SINGLE='$PLAIN \\n #'\nDOUBLE=\"two\\nlines # here\"\nLONG='one\ntwo'\nTWICE=1\nTWICE=2\r\n"
    )
    assert read(tmp_path, text) == {
        "PLAIN": "a=b c",
        "EXPORTED": "x",
        "SHARP": "a#b",
        "EMPTY": "",
        "NONE": "",
        "SINGLE": "$PLAIN \\n #",
        "DOUBLE": "two\nlines # here",
        "LONG": "one\ntwo",
        "TWICE": "2",
    }


def test_a_reference_to_another_name_means_itself(tmp_path: Path) -> None:
    assert read(tmp_path, "A=1\nB=${A}$A\n")["B"] == "${A}$A"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A=1\n\n\nsk-secret\n", 4),
        ("sk-secret", 1),
        ("A=1\r\n\r\n=sk-secret\r\n", 3),
        ("A='one\ntwo'\nsk-secret more=1\n", 3),
        ("A=1\nB='sk-secret\n", 2),
        ('A="x" sk-secret\n', 1),
        ("1A=sk-secret\n", 1),
        ("A-B=sk-secret\n", 1),
    ],
)
def test_a_line_that_sets_nothing_is_refused_by_number_and_not_shown(
    tmp_path: Path, text: str, line: int
) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    assert str(refused.value) == f"{tmp_path}/.env:{line}: expected NAME=VALUE"


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(InputError, match="can't be read as an env file"):
        read_env_file(tmp_path / ".env")
