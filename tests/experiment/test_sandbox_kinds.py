"""Kinds of sandboxes are named in one place: whoever decides by a name takes it from there."""

import ast
from pathlib import Path

import labrunner
from labrunner.experiment.sandbox_kinds import KINDS

ROOT = Path(labrunner.__file__).parent
OTHERS = {
    "sandbox/bare.py": "process",  # whose memory is limited: a process alone, not a group
    "cli/keeping/init.py": "docker",  # a template
    "interop/importers/harbor_job.py": "docker",  # Harbor's own word
}


def test_no_other_module_spells_the_name_of_a_kind() -> None:
    found = {
        (str(path.relative_to(ROOT)), node.value)
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in KINDS.built_in
    }
    home = {("experiment/sandbox_kinds.py", name) for name in KINDS.built_in}
    assert found == home | set(OTHERS.items())
