"""Commands that remove what an agent removed: of any number, each short enough for a kernel."""

import subprocess
from pathlib import Path

from labrunner.files.layering.layerfile import LayerHead, spell_path
from labrunner.sandbox.docker.worklayer.restoring import removal_scripts

LONGEST_WORD = 128 * 1024
"""What Linux takes."""
COUNT = 100_000


def test_a_hundred_thousand_removals_are_short_commands(tmp_path: Path) -> None:
    names = [f"d{number % 7}/it's {number} \udce9" for number in range(COUNT)]
    head = LayerHead(folder="/app", image="", removed=tuple(map(spell_path, names)))
    scripts = list(removal_scripts(head))
    assert max(len(script.encode()) for script in scripts) < LONGEST_WORD
    assert sum(script.count("\\0351") for script in scripts) == COUNT
    (tmp_path / "script").write_text("\n".join(scripts))
    subprocess.run(["sh", "-n", tmp_path / "script"], check=True)


def test_removals_go_through_no_link(tmp_path: Path) -> None:
    outside, work = tmp_path / "outside", tmp_path / "work"
    for folder in (outside, work, work / "inner"):
        folder.mkdir()
        (folder / "file").write_text("there")
    (work / "way").symlink_to(outside)
    gone = ("way/file", "inner/file", "-rf", "nowhere/file")
    [script] = removal_scripts(LayerHead(folder=str(work), image="", removed=gone))
    assert subprocess.run(["sh", "-c", script], check=False).returncode == 0
    assert (outside / "file").exists()
    assert (work / "inner").exists()
    assert not (work / "inner" / "file").exists()
