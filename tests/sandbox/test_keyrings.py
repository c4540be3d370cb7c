"""Keys that the kernel keeps for a session: none gets from the host, or another phase, into a sandbox."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.sandbox.place import Place

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not Path("/proc/keys").exists(), reason="this kernel has no keyrings"
)


RUNNER = """
import sys
from tests.kit.sandbox.keys import leave
from tests.kit.sandbox.keys import look
from tests.kit.sandbox.keyed import carry_out
assert leave("host", b"the-hosts") >= 0
assert "the-hosts" in look()
carry_out(sys.argv[1], sys.argv[2])
"""


def look_inside(kind: str, root: Path) -> list[dict[str, object]]:
    # A session keyring of its own: what the test leaves in one is gone with this process.
    script = (
        f"from labrunner.sandbox.processes.kernel import take_fresh_keyring; take_fresh_keyring()\n{RUNNER}"
    )
    here = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script, kind, str(root)],
        capture_output=True,
        text=True,
        check=False,
        cwd=here,
        env={**os.environ, "PYTHONPATH": here},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((root / "workspace" / f"{name}.json").read_text()) for name in ("agent", "grader")]


def test_a_bare_process_gets_a_session_keyring_that_is_new_and_empty(tmp_path: Path) -> None:
    agent, grader = look_inside("process", tmp_path / "ground")
    assert (agent["seen"], agent["left"]) == ([], True)
    assert grader["seen"] == []


@pytest.mark.bwrap
def test_bubblewrap_closes_keyrings_altogether(bubble: Place, tmp_path: Path) -> None:
    del bubble
    agent, grader = look_inside("bubblewrap", tmp_path / "ground")
    assert (agent["seen"], agent["left"]) == ([], False)
    assert (grader["seen"], grader["left"]) == ([], False)
