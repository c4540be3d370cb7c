"""Secrets of a layer are covered wherever they lie in it."""

import io
import tarfile
from pathlib import Path

import pytest

from labrunner.files.layering.layercover import cover_layer
from labrunner.files.layering.layerfile import LayerHead, write_layer
from labrunner.files.layering.layerreading import open_layer
from labrunner.files.strangers.masking import make_masker

SECRET = "wJalrXUt/K7MDENG"


def write(path: Path, *names: str) -> Path:
    with write_layer(path, LayerHead(folder="/app", image="img"), (1 << 20, 100)) as writer:
        folders = {parent.as_posix() for name in names for parent in Path(name).parents} - {"."}
        for name in ("", *sorted(folders)):
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            writer.add(member)
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 1
            writer.add(member, io.BytesIO(b"x"))
        link = tarfile.TarInfo("hard")
        link.type, link.linkname = tarfile.LNKTYPE, names[0]
        writer.add(link)
    return path


def read(path: Path) -> dict[str, str]:
    with open_layer(path) as reader:
        return {member.name: member.linkname for member, _ in reader.entries()}


@pytest.mark.parametrize(
    "name", [f"{SECRET}/f", f"a/b-{SECRET}", f"a/{SECRET.replace('/', '-')}/{SECRET}.txt/f", f"x{SECRET}x"]
)
def test_a_secret_across_names_of_folders_is_covered_in_each_of_them(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "layer", name, f"{name.partition('/')[0]}/sibling")
    assert cover_layer(path, make_masker({"KEY": SECRET})) > 0
    found = read(path)
    assert SECRET not in str(found)
    assert not any(
        part.endswith("wJalrXUt") or part.startswith("K7MDENG") for each in found for part in each.split("/")
    )
    assert found["hard"] in found
    assert len(found["hard"]) == len(name)
    assert sum(each.endswith("/sibling") for each in found) == 1
    assert cover_layer(path, make_masker({"KEY": SECRET})) == 0


def test_names_that_are_the_same_without_secrets_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "layer", "a/secret-1", "a/secret-2")
    masker = make_masker({"A_LONG_NAME": "secret-1", "ANOTHER_NAME": "secret-2"})
    assert cover_layer(path, masker) == 2
    assert set(read(path)) == {"", "a", "a/********", "a/********-2", "hard"}
