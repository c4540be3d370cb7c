"""Grades work on a SWE-bench instance as its own harness does: a patch, the eval script, the log, two lists.

Runs inside the container by the image's Python, from 3.9 on, standard library only. With the submission
`patch` the repository is put back to where the agent began, and what the agent changed is applied to it as a
patch; with `container` it is judged as the agent left it.
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


ARMS = ("config", "config.worktree", "hooks", "info", "commondir", "index", "refs/replace", "worktrees")
"""What of a repository's folder can change what git does or sees, beside objects and branches."""


def git(*words: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run git on the repository, without hooks and without objects that stand in for others."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *words]
    env = {**os.environ, "GIT_NO_REPLACE_OBJECTS": "1"}
    return subprocess.run(command, cwd=REPO, env=env, input=given, capture_output=True, check=False)


def disarm() -> None:
    """Take out of the repository whatever could run something, hide something or be in the way: OSError."""
    folder = f"{REPO}/.git"
    if os.path.islink(folder) or not os.path.isdir(folder):  # noqa: PTH112, PTH114 - as simple as can be
        raise NotADirectoryError(f"{folder} is no folder any more")
    subprocess.run(["rm", "-rf", *(f"{folder}/{name}" for name in ARMS)], check=False)
    for place, inner, names in os.walk(folder):
        locks = [f"{place}/{name}" for name in (*inner, *names) if name.endswith(".lock")]
        subprocess.run(["rm", "-rf", *locks], check=False)
    with open(f"{folder}/config", "w", encoding="utf-8") as file:  # noqa: PTH123 - as simple as can be
        file.write("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n")
    for name in git("for-each-ref", "--format=%(refname)", "refs/replace/").stdout.decode().split():
        git("update-ref", "-d", name)


def find_base(base: str) -> str:
    """The commit that the image was left at: the instance's, or the one that its makers put on top of it."""
    own = git("rev-list", "--ancestry-path", "--author=setup@swebench.config", f"{base}..HEAD")
    found = own.stdout.decode().split()
    return found[-1] if own.returncode == 0 and found else base


def take_patch(base: str) -> bytes | None:
    """What the agent changed, new files too; None where the repository does not tell."""
    # An index of our own: one that the agent left may say that changed files are not.
    if git("read-tree", base).returncode != 0 or git("add", "-A").returncode != 0:
        return None
    taken = git("diff", "--cached", "--binary", "--no-ext-diff", "--no-textconv", base)
    return taken.stdout if taken.returncode == 0 else None


def put_back(base: str, patch: bytes) -> bool:
    """Put the repository back to where the agent began, and apply the patch to it."""
    steps = (("checkout", "--force", "--detach", base), ("reset", "--hard", base), ("clean", "-fd"))
    if any(git(*step).returncode != 0 for step in steps):
        return False
    return not patch.strip() or git("apply", "--verbose", "-", given=patch).returncode == 0


def prepare(commit: str, submission: str) -> tuple[bytes | None, bool]:
    """The agent's patch, and whether the repository is ready to be judged; one that was ruined never is."""
    try:
        disarm()
        base = find_base(commit)
        patch = take_patch(base)
        is_ready = patch is not None and (submission == "container" or put_back(base, patch))
        if submission == "container":
            git("reset", "--quiet")
    except OSError as error:  # the agent's doing: the image's own repository is a folder, and can be read
        print(f"the repository can't be judged: {error}", file=sys.stderr)  # noqa: T201 - told to people
        return None, False
    return patch, is_ready


def write_eval(script: str) -> None:
    """Write the eval script, such that it also tells how the tests exited."""
    lines = [line for line in script.strip().split("\n") if line not in ("#!/bin/bash", "set -uxo pipefail")]
    at = next((at for at, line in enumerate(lines) if END in line), None)
    if at is not None:
        lines[at : at + 1] = ["LAB_TEST_EXIT=$?", lines[at], f'echo "{EXIT}: $LAB_TEST_EXIT"']
    with open(EVAL, "w", encoding="utf-8") as file:  # noqa: PTH123 - as simple as can be
        file.write("\n".join(["#!/bin/bash", "set -uxo pipefail", *lines, ""]))


def main() -> int:
    """Grade."""
    with open(os.environ["AGENTLAB_TARGET_PATH"], encoding="utf-8") as file:  # noqa: PTH123 - as simple as can be
        asked = json.load(file)
    submission = os.environ.pop("LAB_SUBMISSION", "patch")
    score, prediction = (os.environ[f"AGENTLAB_BENCHMARK_{name}_PATH"] for name in ("SCORE", "PREDICTION"))
    os.environ["HOME"] = "/root"
    os.environ.pop("TMPDIR", None)
    subprocess.run(["git", "config", "--global", "--add", "safe.directory", "*"], cwd="/", check=False)
    patch, is_applied = prepare(asked["base_commit"], submission)
    found = None
    if is_applied:
        write_eval(asked["eval_script"])
        ran = subprocess.run(
            ["bash", EVAL], cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        log = ran.stdout.decode(errors="replace")
        sys.stdout.write(log)
        found = read_log(log, READERS[asked["reader"]])
    told = judge(found, asked)
    told["metrics"]["patch_applied"] = is_applied
    text = (patch or b"").decode(errors="replace")
    with open(prediction, "w", encoding="utf-8") as file:  # noqa: PTH123 - as simple as can be
        value = text if len(text.encode()) < MOST_PATCH else f"a patch of {len(text.encode())} bytes"
        json.dump({"kind": "patch", "value": value}, file)
    with open(score, "w", encoding="utf-8") as file:  # noqa: PTH123 - as simple as can be
        json.dump(told, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
