"""The Python examples run as they are, and are valid tasks of Inspect with other imports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.solve.authoring import retry, run

EXAMPLES = Path(__file__).parents[2] / "examples/python"
FOUND = {
    "choice.py": (0.8, {}),
    "ctf/ctf.py": (0.75, {"sandbox": "bubblewrap"}),
    "reflect.py": (0.75, {}),
    "graded.py": (0.5, {}),
    "coding.py": (2 / 3, {"sandbox": "bubblewrap"}),
}
IMPORTS = (
    (r"^from labrunner\.tool import sandbox$", "from inspect_ai.util import sandbox"),
    (r"^from labrunner(\.\w+)? import", r"from inspect_ai\1 import"),
)


@pytest.mark.bwrap
@pytest.mark.parametrize("name", FOUND)
def test_an_example_gives_what_it_should(tmp_path: Path, name: str) -> None:
    accuracy, options = FOUND[name]
    script = EXAMPLES / "mock" / f"{Path(name).stem}.json"
    log = run(str(EXAMPLES / name), tmp_path, f"mock/{script}", **options)
    assert log.status == "success"
    assert log.results.metrics["accuracy"].value == pytest.approx(accuracy)
    assert retry(log, **options).status == "success"


def test_an_example_takes_its_parameter(tmp_path: Path) -> None:
    model = f"mock/{EXAMPLES}/mock/reflect.json"
    log = run(str(EXAMPLES / "reflect.py"), tmp_path, model, task_args={"rounds": 0})
    assert log.results.metrics["accuracy"].value == 0.5
    judge = f"mock/{EXAMPLES}/mock/graded.json"
    log = run(str(EXAMPLES / "graded.py"), tmp_path, "mock/echo", task_args={"judge": judge})
    assert log.results.metrics["accuracy"].value == 0.5


def test_the_examples_are_tasks_of_inspect_but_for_their_imports(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    (tmp_path / "ctf").mkdir()
    for path in [EXAMPLES / name for name in FOUND] + [*EXAMPLES.glob("*.csv"), *EXAMPLES.glob("ctf/*.*")]:
        text = path.read_text()
        for ours, theirs in IMPORTS if path.suffix == ".py" else ():
            text = re.sub(ours, theirs, text, flags=re.MULTILINE)
        (tmp_path / path.relative_to(EXAMPLES)).write_text(text)
    code = (
        "import os, runpy, sys\n"
        "for name in sys.argv[1:]:\n"
        "    os.chdir(os.path.dirname(name))\n"
        "    made = [each for each in runpy.run_path(name).values() if hasattr(each, '__registry_info__')]\n"
        "    tasks = [each() for each in made if each.__registry_info__.type == 'task']\n"
        "    assert len(tasks) == 1 and len(tasks[0].dataset) > 2, name\n"
    )
    files = [str(tmp_path / name) for name in FOUND]
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *files], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
