"""Reads random logs as SWE-bench's own harness does and as ours does; run by a Python that has the harness.

python swe_bench_peer.py GRADER.py COUNT      # prints one line of JSON: how many were compared, what differs
"""

import importlib.util
import json
import random
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

WORDS = [
    *(
        "PASSED",
        "FAILED",
        "SKIPPED",
        "ERROR",
        "XFAIL",
        "t.py::a",
        "t.py::b[x y]",
        "t.py::c[/a/b]",
        "[2]",
        " - ",
    ),
    *(
        "no way",
        " ... ok",
        " ... FAIL",
        " ... skipped 'x'",
        " ... ERROR",
        "test_a (m.T)",
        "test_b",
        "ok",
        " E",
        " F",
    ),
    *(
        "FAIL: test_z",
        "ERROR: test_q",
        "____ sympy/x.py:test_d ____",
        "\x1b[32m",
        "\x1b[0m",
        "MouseButton.LEFT",
    ),
    *("t.py::c[Mouse", "", " ", " ...  OK", "System check identified no issues (0 silenced)", "[100%]"),
]
NAMES = [
    "t.py::a",
    "t.py::b[x",
    "t.py::b[x y]",
    "t.py::c[/b]",
    "test_a (m.T)",
    "test_b",
    "test_a",
    "t.py::c[Mouse",
]


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("grader", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_log(chance: random.Random, grader: ModuleType) -> str:
    lines = []
    for _ in range(chance.randint(0, 8)):
        between = " " if chance.random() < 0.7 else ""
        lines.append(between.join(chance.choice(WORDS) for _ in range(chance.randint(1, 4))))
    parts = [f"{grader.START}\n" if chance.random() < 0.95 else "", "\n".join(lines), "\n"]
    parts += [f"{grader.END}\n" if chance.random() < 0.95 else ""]
    parts += [f"{grader.EXIT}: {chance.choice([0, 1])}\n" if chance.random() < 0.5 else ""]
    return "".join([*parts, chance.choice(grader.BAD) if chance.random() < 0.03 else ""])


def ask_theirs(asked: dict[str, Any], parser: str, log: Path) -> tuple[bool, dict[str, str], tuple[int, ...]]:
    from swebench.harness import grading  # type: ignore[import-not-found] # is there where this is run
    from swebench.harness.constants import EvalType  # type: ignore[import-not-found] # the same
    from swebench.types import TestSpec  # type: ignore[import-not-found] # the same

    lists = {name: asked[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    spec = TestSpec("x", "image", [], "repo", "1", *lists.values(), parser, asked["eval_type"])
    statuses, is_found = grading.get_logs_eval(spec, str(log))
    if not is_found:
        return False, {}, ()
    report = grading.get_eval_tests_report(statuses, lists, eval_type=EvalType(asked["eval_type"]))
    counts = tuple(len(report[name]["success"]) for name in lists)
    return grading.get_resolution_status(report) == "RESOLVED_FULL", statuses, counts


def ask_ours(
    grader: ModuleType, asked: dict[str, Any], reader: str, log: str
) -> tuple[bool, dict[str, str], tuple[int, ...]]:
    found = grader.read_log(log, grader.READERS[reader])
    if found is None:
        return False, {}, ()
    told = grader.judge(found, asked)
    counts = tuple(told["metrics"][name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    return bool(told["score"]), found, counts


def main() -> None:
    grader, count = load(sys.argv[1]), int(sys.argv[2])
    readers: dict[str, str] = json.loads(sys.argv[3])
    chance, differ, compared = random.Random(7), [], 0
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        for _ in range(count):
            parser, text = chance.choice(list(readers)), make_log(chance, grader)
            asked: dict[str, Any] = {
                "FAIL_TO_PASS": chance.sample(NAMES, chance.randint(0, 2)),
                "PASS_TO_PASS": chance.sample(NAMES, chance.randint(0, 2)),
                "eval_type": chance.choice(["pass_and_fail", "fail_only"]),
            }
            log.write_text(text)
            theirs, ours = ask_theirs(asked, parser, log), ask_ours(grader, asked, readers[parser], text)
            compared += 1
            if theirs != ours:
                differ.append([parser, text, asked, theirs, ours])
    print(json.dumps({"compared": compared, "differ": differ[:5]}))


if __name__ == "__main__":
    main()
