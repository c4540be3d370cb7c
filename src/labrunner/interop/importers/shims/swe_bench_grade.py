"""Grades work on a SWE-bench instance as its own harness does: a patch, the eval script, the log, two lists.

Runs inside the container by the image's Python, from 3.9 on, standard library only. In a pristine container
the agent's patch is applied to the image's own repository, which no agent has touched; elsewhere the
repository is judged as the agent left it. The one argument is the script that scrubs a history.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

REPO, EVAL = "/testbed", "/eval.sh"
START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
EXIT = ">>>>> Test Exit Code"
BAD = (">>>>> Patch Apply Failed", ">>>>> Reset Failed", ">>>>> Tests Errored", ">>>>> Tests Timed Out")
WORDS = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
COUNTED = re.compile(r"\[\d+\]")
MOST_PATCH = 700_000
"""Bytes of a patch that a prediction can hold; a longer one is named only."""


def read_pytest(log: str) -> dict[str, str]:
    """Lines of pytest that begin with a status: the test is the word behind it."""
    found = {}
    for line in log.split("\n"):
        words = (line.replace(" - ", " ") if line.startswith("FAILED") else line).split()
        if line.startswith(WORDS) and len(words) > 1 and not is_count(words):
            found[words[1]] = words[0]
    return found


def is_count(words: list[str]) -> bool:
    """Whether a line tells how many tests were skipped, and names none."""
    return words[0] == "SKIPPED" and COUNTED.fullmatch(words[1]) is not None


def read_options(log: str) -> dict[str, str]:
    """The same, where paths in a test's options count by their last part."""
    return {shorten_option(name): status for name, status in read_pytest(log).items()}


def shorten_option(name: str) -> str:
    """A test's name with the last part of a path in its brackets."""
    match = re.search(r"(.*?)\[(.*)\]", name)
    if match is None:
        return name
    main, option = match.groups()
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = "/" + option.split("/")[-1]
    return f"{main}[{option}]"


def read_pytest_later(log: str) -> dict[str, str]:
    """Lines of later pytest: colours are taken out, names may hold spaces, the status may stand last."""
    found = {}
    for raw in log.split("\n"):
        line = "".join(letter for letter in re.sub(r"\[(\d+)m", "", raw) if not 0 < ord(letter) < 32)
        if line.startswith(WORDS):
            words = (line.split(" - ", 1)[0] if line.startswith("FAILED") else line).split()
            if len(words) > 1 and not is_count(words):
                found[" ".join(words[1:])] = words[0]
        elif line.endswith(WORDS):
            words = line.split()
            if len(words) > 1:
                found[" ".join(words[:-1])] = words[-1]
    return found


def read_matplotlib(log: str) -> dict[str, str]:
    """As pytest, where names of mouse buttons are their numbers."""
    return read_pytest(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def read_seaborn(log: str) -> dict[str, str]:
    """Failures by a status before the name; passes before or behind it."""
    found = {}
    for line in log.split("\n"):
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith("FAILED"):
            found[words[1]] = "FAILED"
        elif " PASSED " in line:
            if words[1] == "PASSED":
                found[words[0]] = "PASSED"
        elif line.startswith("PASSED"):
            found[words[1]] = "PASSED"
    return found


def read_sympy(log: str) -> dict[str, str]:
    """Headlines of failures, and lines that end with a letter."""
    found = {f"{match[1]}.py:{match[2]}": "FAILED" for match in re.findall(r"(_*) (.*)\.py:(.*) (_*)", log)}
    ends = {" E": "ERROR", " F": "FAILED", " ok": "PASSED"}
    for line in map(str.strip, log.split("\n")):
        for end, status in ends.items():
            if line.startswith("test_") and line.endswith(end):
                found[line.split()[0]] = status
    return found


DJANGO_LATE = (
    r"^(.*?)\s\.\.\.\sTesting\ against\ Django\ installed\ in\ ((?s:.*?))\ silenced\)\.\nok$",
    r"^(.*?)\s\.\.\.\sInternal\ Server\ Error:\ \/(.*)\/\nok$",
    r"^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$",
)
"""Tests whose `ok` comes after something that was printed meanwhile."""


def read_django(log: str) -> dict[str, str]:
    """Lines of Django's own runner: `name ... ok`."""
    found: dict[str, str] = {}
    before = None
    for line in map(str.strip, log.split("\n")):
        if "--version is equivalent to version" in line:
            found["--version is equivalent to version"] = "PASSED"
        if " ... " in line:
            before = line.split(" ... ")[0]
        found.update(read_django_line(line))
        if line.startswith("ok") and before is not None:
            found[before] = "PASSED"
    for pattern in DJANGO_LATE:
        for match in re.finditer(pattern, log, re.MULTILINE):
            found[match.group(1)] = "PASSED"
    return found


def read_django_line(line: str) -> dict[str, str]:
    """What one line says."""
    found = {}
    end = next((end for end in (" ... ok", " ... OK", " ...  OK") if line.endswith(end)), None)
    if end is not None:
        odd = line.startswith("Applying sites.0002_alter_domain_unique...test_no_migrations")
        found[(line.split("...", 1)[-1].strip() if odd else line).rsplit(end, 1)[0]] = "PASSED"
    if " ... skipped" in line:
        found[line.split(" ... skipped")[0]] = "SKIPPED"
    for word, status in (("FAIL", "FAILED"), ("ERROR", "ERROR")):
        if line.endswith(f" ... {word}"):
            found[line.split(f" ... {word}")[0]] = status
        if line.startswith(f"{word}:") and len(line.split()) > 1:
            found[line.split()[1]] = status
    return found


Reader = Callable[[str], dict[str, str]]
READERS: dict[str, Reader] = {
    "pytest": read_pytest,
    "options": read_options,
    "later": read_pytest_later,
    "django": read_django,
    "matplotlib": read_matplotlib,
    "seaborn": read_seaborn,
    "sympy": read_sympy,
}


def read_log(content: str, reader: Reader) -> dict[str, str] | None:
    """What the tests came to; None where the log does not tell."""
    if any(word in content for word in BAD) or START not in content or END not in content:
        return None
    found = reader(content.split(START)[1].split(END)[0]) or reader(content)
    if not found:
        return None
    exit_status = re.search(re.escape(EXIT) + r":\s*(-?\d+)", content)
    has_failed = any(status in ("FAILED", "ERROR") for status in found.values())
    # Tests that end badly and report no failure: the log does not tell of the run that took place.
    return None if exit_status and int(exit_status.group(1)) != 0 and not has_failed else found


def find(case: str, found: dict[str, str]) -> str | None:
    """The status of a test; of a name that was cut in its brackets, by those that begin so, if they agree."""
    if case in found:
        return found[case]
    if case.count("[") <= case.count("]"):
        return None
    statuses = [status for name, status in found.items() if name.startswith(case)]
    agree = len({status in ("PASSED", "XFAIL") for status in statuses}) == 1
    return statuses[0] if agree else None


def judge(found: dict[str, str] | None, asked: dict[str, Any]) -> dict[str, Any]:
    """The two lists, counted, and whether the instance is resolved."""
    is_fail_only = asked.get("eval_type") == "fail_only"
    counts = {}
    for name, good in (
        ("FAIL_TO_PASS", ("PASSED", "XFAIL")),
        ("PASS_TO_PASS", ("PASSED", "XFAIL", "SKIPPED")),
    ):
        statuses = [find(case, found or {}) for case in asked[name]]
        if is_fail_only and found is not None:
            held = [found.get(case) != "FAILED" for case in asked[name]]
        else:
            held = [status in good for status in statuses]
        counts[name] = (sum(held), len(held))
    resolved = found is not None and all(passed == every for passed, every in counts.values())
    metrics: dict[str, Any] = {"log_read": found is not None, "tests": len(found or {})}
    for name, (passed, every) in counts.items():
        metrics[name] = passed
        metrics[f"{name}_of"] = every
    return {"score": int(resolved), "metrics": metrics}


def git(*words: str, given: bytes | None = None) -> bool:
    """Run git on the repository; whether it did what it was told."""
    done = subprocess.run(["git", *words], cwd=REPO, input=given, capture_output=True, check=False)
    sys.stderr.buffer.write(done.stderr)
    return done.returncode == 0


def read_patch(path: str | None) -> bytes | None:
    """What the agent changed, as `lab` found it from outside; None where that could not be made a patch."""
    try:
        with open(path or "", "rb") as file:  # noqa: PTH123 - as simple as can be
            return file.read()
    except FileNotFoundError:
        return None


def scrub(script: str) -> None:
    """Take out of the image's repository what lies behind its commit: code under test could read it."""
    done = subprocess.run(["sh", "-c", script], cwd=REPO, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"the image's repository can't be made ready: {done.stderr.decode(errors='replace')}")


def apply(patch: bytes | None) -> bool:
    """Apply the agent's patch to the image's own files; whether they are ready to be judged."""
    if patch is None:
        return False
    if not (git("reset", "--hard", "--quiet", "HEAD") and git("clean", "-fdq")):
        sys.exit("the image's repository can't be put to its own commit")
    return not patch.strip() or git("apply", "-", given=patch)


def write_eval(script: str) -> None:
    """Write the eval script, such that it also tells how the tests exited."""
    lines = [line for line in script.strip().split("\n") if line not in ("#!/bin/bash", "set -uxo pipefail")]
    at = next((at for at, line in enumerate(lines) if END in line), None)
    if at is not None:
        lines[at : at + 1] = ["LAB_TEST_EXIT=$?", lines[at], f'echo "{EXIT}: $LAB_TEST_EXIT"']
    with open(EVAL, "w", encoding="utf-8") as file:  # noqa: PTH123 - as simple as can be
        file.write("\n".join(["#!/bin/bash", "set -uxo pipefail", *lines, ""]))


def main(scrubbing: str) -> int:
    """Grade."""
    with open(os.environ["AGENTLAB_TARGET_PATH"], encoding="utf-8") as file:  # noqa: PTH123 - as simple as can be
        asked = json.load(file)
    score, prediction = (os.environ[f"AGENTLAB_BENCHMARK_{name}_PATH"] for name in ("SCORE", "PREDICTION"))
    is_patched = os.environ["AGENTLAB_GRADER_WHERE"] == "pristine"
    os.environ["HOME"] = "/root"
    os.environ.pop("TMPDIR", None)
    patch = read_patch(os.environ.get("AGENTLAB_PATCH_PATH"))
    if is_patched:
        subprocess.run(["git", "config", "--global", "--add", "safe.directory", "*"], cwd="/", check=False)
        scrub(scrubbing)
    is_ready = apply(patch) if is_patched else os.path.isdir(REPO)  # noqa: PTH112 - as simple as can be
    found = None
    if is_ready:
        write_eval(asked["eval_script"])
        ran = subprocess.run(
            ["bash", EVAL], cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        log = ran.stdout.decode(errors="replace")
        sys.stdout.write(log)
        found = read_log(log, READERS[asked["reader"]])
    told = judge(found, asked)
    if is_patched:
        told["metrics"]["patch_applied"] = is_ready
    text = (patch or b"").decode(errors="replace")
    with open(prediction, "w", encoding="utf-8") as file:  # noqa: PTH123 - as simple as can be
        value = text if len(text.encode()) < MOST_PATCH else f"a patch of {len(text.encode())} bytes"
        json.dump({"kind": "patch", "value": value}, file)
    with open(score, "w", encoding="utf-8") as file:  # noqa: PTH123 - as simple as can be
        json.dump(told, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
