"""Judges `solution.py` by hidden tests: it passes when every hidden case gives the expected value.

The code under test is not trusted. It runs in a process of its own (`answer.py`) that is told the
arguments and never the expected values, and that can't open anything once the code starts; the values it
hands back are compared here. So leaving early, printing "passed" or looking for the answers fails.
"""

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

MAX_SOURCE_BYTES = 32 * 1024
TIMEOUT_S = 10


def read_solution(path):
    """Read the agent's file; None when it is missing, too big or not a plain file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_SOURCE_BYTES:
            return None
        return file.read().decode("utf-8", errors="replace")


def ask(source, function, arguments):
    """Run the code on every list of arguments; return its values, or none at all if it broke."""
    question = json.dumps({"source": source, "function": function, "arguments": arguments})
    command = [sys.executable, "-I", str(Path(__file__).with_name("answer.py"))]
    with tempfile.TemporaryFile() as answers:
        try:
            subprocess.run(
                command, input=question.encode(), stdout=answers, timeout=TIMEOUT_S, env={}, check=False
            )
            answers.seek(0)
            values = json.loads(answers.read())
        except (subprocess.TimeoutExpired, ValueError, RecursionError):
            return []
    return values if isinstance(values, list) else []


def judge(source, target):
    """Say how many of the hidden cases hold."""
    cases = target["cases"]
    values = ask(source, target["function"], [case["args"] for case in cases])
    pairs = zip(values, cases, strict=False)
    return sum(value == {"value": case["expected"]} for value, case in pairs)


def write(variable, value):
    """Write a record to the path that a variable names."""
    Path(os.environ[variable]).write_text(json.dumps(value), encoding="utf-8")


def main():
    target = json.loads(Path(os.environ["AGENTLAB_TARGET_PATH"]).read_text(encoding="utf-8"))
    source = read_solution(Path(os.environ["AGENTLAB_WORKSPACE"], "solution.py"))
    if source is not None:
        write("AGENTLAB_BENCHMARK_PREDICTION_PATH", {"kind": "text", "value": source})
    total = len(target["cases"])
    right = 0 if source is None else judge(source, target)
    score = {
        "verdict": "pass" if right == total else "fail",
        "primary_metric_name": "solved",
        "primary_metric_value": float(right == total),
        "metrics": {"hidden_right": right, "hidden_total": total},
    }
    write("AGENTLAB_BENCHMARK_SCORE_PATH", score)
    print(f"{right} of {total} hidden cases are right")


if __name__ == "__main__":
    main()
