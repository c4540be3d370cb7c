"""Instances of SWE-bench that are judged twice: by its own harness, and by `lab`; and what each says of them.

The table of `docs/foreign-tasks.md` is made of these, and `scripts/peers` sees whether both say so.
"""

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from labrunner.sandbox.docker.engine.client import Engine
from tests.kit.docker.testimages import Recipe, add_text
from tests.kit.interop.verdicts import ERROR, NOP, ORACLE, Said

WITH_GIT: Final = Recipe(
    name="git",
    python=True,
    tools=(Path("/bin/bash"), Path("/usr/bin/git"), Path("/usr/bin/patch")),
    without=("patch",),
    links=(("bin/bash", "/usr/bin/bash"),),
)
"""What both harnesses need of an image."""
LIMIT_S: Final = 60
"""For tests of an instance, in both."""

# A repository as SWE-bench's images have one: a commit to start from, and the fix on a branch behind it.
START: Final = (
    "git init -q && git config user.email me@here && git config user.name me && echo wrong >answer.txt && "
    "echo old >old.txt && seq 9 >long.txt && echo '*.log' >.gitignore && "
    "git add -A && git commit -qm start && git branch -M main"
)
FIX: Final = "git checkout -qb fix && echo 42 >answer.txt && git commit -qam fix && git checkout -q main"
DATES: Final = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}


async def build_repository(base: str, name: str = "lab-test:swe") -> str:
    """Build an image with the repository in /testbed; its name."""
    dates = " ".join(f"{name}={value}" for name, value in DATES.items())
    text = f"FROM {base}\nENV {dates}\nWORKDIR /testbed\nRUN {START} && {FIX}\n"
    packed, engine = io.BytesIO(), Engine()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        add_text(archive, "Dockerfile", text)
    packed.seek(0)
    try:
        async for _ in engine.build(packed, name, {}):
            pass
    finally:
        await engine.close()
    return name


def find_start(folder: Path) -> str:
    """The first commit of the repository: made again here, it has the same name."""
    folder.mkdir()
    words = f"({START}) >&2 && git rev-parse HEAD"
    env = {**os.environ, **DATES}
    return subprocess.check_output(["sh", "-c", words], cwd=folder, env=env).decode().strip()


NEW, OLD = "t.py::test_new", "t.py::test_old"
GOLD: Final = "--- a/answer.txt\n+++ b/answer.txt\n@@ -1 +1 @@\n-wrong\n+42\n"
WRONG: Final = GOLD.replace("+42", "+41")
REMOVES_OLD: Final = "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
ADDS: Final = "--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+new\n"
FUZZY: Final = "--- a/long.txt\n+++ b/long.txt\n@@ -3,7 +3,7 @@\n 3 as it was\n 4\n 5\n-6\n+six\n 7\n 8\n 9\n"
RIGHT: Final = '[ "$(cat answer.txt)" = 42 ]'
THERE: Final = "[ -e old.txt ]"


def telling(new: str, good: str, bad: str, old: str = "PASSED t.py::test_old", end: str = RIGHT) -> str:
    """An eval script that tells of two tests in the words of one parser."""
    return f"""\
#!/bin/bash
set -uxo pipefail
cd /testbed
: '>>>>> Start Test Output'
if {new}; then echo '{good}'; else echo '{bad}'; fi
if {THERE}; then echo '{old}'; else echo 'FAILED t.py::test_old - gone'; fi
{end}
: '>>>>> End Test Output'
"""


def wanting(new: str) -> str:
    """An eval script in the words of pytest."""
    return telling(new, f"PASSED {NEW}", f"FAILED {NEW} - no")


@dataclass(frozen=True, kw_only=True)
class Case(Said):
    """An instance."""

    patch: str = GOLD
    row: Mapping[str, Any] = field(default_factory=dict)


BOTH: Final = {ORACLE: "1", NOP: "0"}
NEVER: Final = {ORACLE: "0", NOP: "0"}
CASES: Final[Mapping[str, Case]] = {
    "gold": Case(shows="the instance's own patch", theirs=BOTH),
    "wrong": Case(shows="a patch that does not help", patch=WRONG, theirs=NEVER),
    "breaks": Case(shows="a patch that helps, and breaks what held", patch=GOLD + REMOVES_OLD, theirs=NEVER),
    "adds": Case(
        shows="a patch with a new file",
        patch=GOLD + ADDS.format("new.txt"),
        row={"eval_script": wanting(f"{RIGHT} && [ -e new.txt ]")},
        theirs=BOTH,
    ),
    "fail_only": Case(
        shows="`eval_type: fail_only`, and a test that is not told of",
        row={"eval_type": "fail_only", "PASS_TO_PASS": [OLD, "t.py::test_untold"]},
        theirs=BOTH,
    ),
    "untold": Case(
        shows="a test that is not told of", row={"PASS_TO_PASS": [OLD, "t.py::test_untold"]}, theirs=NEVER
    ),
    "expected": Case(
        shows="tests that fail as expected, and that are skipped",
        row={"eval_script": telling(RIGHT, f"XFAIL {NEW}", f"FAILED {NEW}", f"SKIPPED {OLD}")},
        theirs=BOTH,
    ),
    "skipped": Case(
        shows="a test that is to pass, skipped",
        row={"eval_script": telling(RIGHT, f"SKIPPED {NEW}", f"FAILED {NEW}")},
        theirs=NEVER,
    ),
    "no_end": Case(
        shows="tests that end before their end is told",
        row={"eval_script": telling(RIGHT, f"PASSED {NEW}", f"FAILED {NEW} - no", end="exit 0")},
        theirs=NEVER,
    ),
    "bad_exit": Case(
        shows="tests that tell of no failure, and exit with 3",
        row={"eval_script": telling(RIGHT, f"PASSED {NEW}", f"FAILED {NEW} - no", end="(exit 3)")},
        theirs=NEVER,
    ),
    "django": Case(
        shows="`parse_log_django`",
        row={
            "log_parser": "parse_log_django",
            "FAIL_TO_PASS": ["test_new (m.T)"],
            "PASS_TO_PASS": ["test_old (m.T)"],
            "eval_script": telling(
                RIGHT, "test_new (m.T) ... ok", "test_new (m.T) ... FAIL", "test_old (m.T) ... ok"
            ),
        },
        theirs=BOTH,
    ),
    "later": Case(
        shows="`parse_log_pytest_v2`, names with spaces",
        row={
            "log_parser": "parse_log_pytest_v2",
            "FAIL_TO_PASS": ["t.py::b[x y]"],
            "eval_script": telling(RIGHT, "PASSED t.py::b[x y]", "FAILED t.py::b[x y] - no"),
        },
        theirs=BOTH,
    ),
    "options": Case(
        shows="`parse_log_requests`, a path in brackets",
        row={
            "log_parser": "parse_log_requests",
            "FAIL_TO_PASS": ["t.py::c[/b]"],
            "eval_script": telling(RIGHT, "PASSED t.py::c[/a/b]", "FAILED t.py::c[/a/b] - no"),
        },
        theirs=BOTH,
    ),
    "sympy": Case(
        shows="`parse_log_sympy`",
        row={
            "log_parser": "parse_log_sympy",
            "FAIL_TO_PASS": ["test_new"],
            "PASS_TO_PASS": ["test_old"],
            "eval_script": telling(RIGHT, "test_new ok", "test_new F", "test_old ok"),
        },
        theirs=BOTH,
    ),
    "seaborn": Case(
        shows="`parse_log_seaborn`",
        row={
            "log_parser": "parse_log_seaborn",
            "eval_script": telling(RIGHT, f"{NEW} PASSED [1]", f"FAILED {NEW}", f"{OLD} PASSED [2]"),
        },
        theirs=BOTH,
    ),
    "matplotlib": Case(
        shows="`parse_log_matplotlib`, a mouse button",
        row={
            "log_parser": "parse_log_matplotlib",
            "FAIL_TO_PASS": ["t.py::m[1]"],
            "eval_script": telling(RIGHT, "PASSED t.py::m[MouseButton.LEFT]", "FAILED t.py::m[1]"),
        },
        theirs=BOTH,
    ),
    "late": Case(
        shows="tests that are out of time",
        row={"eval_script": telling(RIGHT, f"PASSED {NEW}", f"FAILED {NEW}", end="sleep 300")},
        theirs={ORACLE: ERROR, NOP: "0"},
        ours={NOP: ERROR},
        why="an empty patch is not run there; here what nobody wrote is judged, too",
    ),
    "fuzzy": Case(
        shows="a patch that fits only with fuzz",
        patch=GOLD + FUZZY,
        theirs=BOTH,
        ours={ORACLE: "0"},
        why="a prediction is how files differ, never a text that is made to fit: the oracle fails",
    ),
    "ignored": Case(
        shows="a patch with a file that git ignores",
        patch=GOLD + ADDS.format("new.log"),
        row={"eval_script": wanting(f"{RIGHT} && [ -e new.log ]")},
        theirs=BOTH,
        ours={ORACLE: "0"},
        why="a prediction is what git says of the files that an agent left, and git says nothing of this one",
    ),
    "unfit": Case(
        shows="a patch that does not fit at all",
        patch=WRONG.replace("-wrong", "-never there").replace("answer", "gone"),
        theirs={ORACLE: ERROR, NOP: "0"},
        ours={ORACLE: "0"},
        why="the same: the agent changed nothing, and that is judged",
    ),
}


def make_rows(image: str, commit: str) -> list[dict[str, Any]]:
    """The instances, as a data set has them."""
    common = {
        "repo": "team/repo",
        "version": "1",
        "base_commit": commit,
        "problem_statement": "Mend it.",
        "image": image,
        "eval_script": wanting(RIGHT),
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "FAIL_TO_PASS": [NEW],
        "PASS_TO_PASS": [OLD],
    }
    return [{**common, "instance_id": name, "patch": case.patch, **case.row} for name, case in CASES.items()]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
