"""The package `lab-extras`, which brings one of everything that lab has a door for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.kit.cli.calling import AGENT_SHOUTS
from tests.kit.extending.packages import write_package, write_wheel

NAME: Final = "lab-extras"

SANDBOX: Final = """
import os
from contextlib import asynccontextmanager
from pathlib import Path

from labrunner.extension import Orphans, SandboxKind
from labrunner.sandbox.bare import ProcessMaker


class LoudMaker(ProcessMaker):
    @asynccontextmanager
    async def _open(self, spec):
        async with super()._open(spec) as sandbox:
            (spec.folders.workspace / "loud.txt").write_text("a loud sandbox was opened")
            yield sandbox


def make(*, anew):
    return LoudMaker()


class LoudSweeper:
    # Sweeps a folder that the test knows: each file in it is an orphan.

    async def find_strays(self, runs):
        return {}

    async def find_orphans(self, *, ended_before):
        left = sorted(map(str, Path(os.environ["LOUD_LEFT"]).iterdir())) if "LOUD_LEFT" in os.environ else ()
        return (Orphans(whose="nobody", ids=tuple(left)),) if left else ()

    async def remove(self, ids):
        for path in ids:
            Path(path).unlink()

    async def remove_all_of(self, run):
        return 0


KIND = SandboxKind(make=make, isolates_network=False, is_isolated=False, make_sweeper=LoudSweeper)
"""

EXPORTER: Final = """
from labrunner.extension import Exporter


def write(seen, target):
    target.write_text(f"{seen.record.run_id}: {seen.summary.totals.trials} trials\\n")
    return (target,)


EXPORTER = Exporter(ending=".line", write=write)
"""

SOURCE: Final = '''
from labrunner.extension import InputError, Row, RowOrigin


def read_counted(request):
    """`counted:3`: three tasks."""
    if not request.text.isdigit():
        raise InputError(request.where, f"counted: expected a number, found {request.text!r}")
    for number in range(int(request.text)):
        origin = RowOrigin(file="counted", mark=f": number {number}", base=request.folder)
        data = {"id": f"n{number}", "input": f"word {number}", "target": f"WORD {number}"}
        yield Row(data=data if number < 7 else {"id": 8}, origin=origin)


def read_words(request):
    """A file with one word a line."""
    for number, word in enumerate(request.path.read_text().split(), start=1):
        origin = RowOrigin(file=str(request.path), mark=f":{number}", base=request.path.parent)
        yield Row(data={"id": word, "input": word, "target": word.upper()}, origin=origin)
'''

IMPORTER: Final = '''
from labrunner.extension import Imported, InputError


def import_words(path):
    """A folder with `words.txt`: an agent that shouts, and a grader that knows the answers."""
    words = path / "words.txt"
    if not words.is_file():
        raise InputError(str(path), "is no folder of words: it has no words.txt")
    tasks = [{"id": word, "input": word, "target": word.upper()} for word in words.read_text().split()]
    fields = {
        "name": path.name,
        "tasks": tasks,
        "agent": {"command": ["$python", "$agent_dir/agent.py"], "dir": "agent"},
        "grader": {"command": ["$python", "-I", "$grader_dir/grade.py"], "dir": "grader"},
        "sandbox": {"kind": "process"},
    }
    return Imported(fields=fields, folder=path)
'''

AGENT: Final = """command: [$python, $agent_dir/agent.py]
dir: agent
env: {VOICE: loud, MOOD: good}
timeout_s: 60
"""

PARTS: Final = """
from labrunner.scorer import Score, scorer
from labrunner.solver import solver


@solver
def shout(end: str = ""):
    async def solve(state, generate):
        state.output.completion = state.input_text.upper() + end
        return state

    return solve


@scorer()
def loudness():
    async def score(state, target):
        return Score(value=1 if state.output.completion.isupper() else 0, answer=state.output.completion)

    return score
"""

EXECUTOR: Final = '''
from pathlib import Path

from labrunner.extension import LocalExecutor


class Forwarding:
    """Forwards to this machine, and keeps a list of what it carried out."""

    def __init__(self, context, make):
        self._inner, self._context = LocalExecutor(context, make), context

    async def carry_out(self, assignment, notes, survivor=None):
        with (Path(self._context.trials_dir).parent.parent / "forwarded.txt").open("a") as file:
            file.write(f"{assignment.trial_id}\\n")
        return await self._inner.carry_out(assignment, notes, survivor)

    def __getattr__(self, name):
        return getattr(self._inner, name)
'''

FILES: Final[Mapping[str, str]] = {
    "lab_extras/__init__.py": "",
    "lab_extras/sandbox.py": SANDBOX,
    "lab_extras/exporter.py": EXPORTER,
    "lab_extras/source.py": SOURCE,
    "lab_extras/importer.py": IMPORTER,
    "lab_extras/parts.py": PARTS,
    "lab_extras/executor.py": EXECUTOR,
    "lab_extras/agents.py": "from pathlib import Path\nSHOUTER = Path(__file__).with_name('shouter.yaml')\n",
    "lab_extras/shouter.yaml": AGENT,
    "lab_extras/agent/agent.py": AGENT_SHOUTS,
}
POINTS: Final[Mapping[str, Mapping[str, str]]] = {
    "labrunner.sandboxes": {"loud": "lab_extras.sandbox:KIND"},
    "labrunner.task_sources": {
        "counted": "lab_extras.source:read_counted",
        ".words": "lab_extras.source:read_words",
    },
    "labrunner.importers": {"words": "lab_extras.importer:import_words"},
    "labrunner.agents": {"shouter": "lab_extras.agents:SHOUTER"},
    "labrunner.executors": {"forwarding": "lab_extras.executor:Forwarding"},
    "labrunner.solvers": {"shout": "lab_extras.parts:shout"},
    "labrunner.scorers": {"loudness": "lab_extras.parts:loudness"},
    "labrunner.exporters": {"line": "lab_extras.exporter:EXPORTER"},
}


def write_extras(site: Path) -> dict[str, str]:
    """Write it as an installer leaves it; what `lab` needs in its environment to see it."""
    return {"PYTHONPATH": str(write_package(site, NAME, FILES, POINTS, "2.1"))}


def wheel_of_extras(folder: Path) -> Path:
    """Write it as a wheel."""
    return write_wheel(folder, NAME, FILES, POINTS, "2.1")
