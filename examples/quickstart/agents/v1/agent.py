"""Repairs a Python function by changing one token at a time, until the visible examples hold.

Reads the task (AGENTLAB_TASK_PATH), mends `solution.py` in the workspace (AGENTLAB_WORKSPACE) and reports
(AGENTLAB_RESULT_PATH). It tries at most `--budget` candidates, in an order drawn from the task and the
replication: the same trial always does the same, another replication looks elsewhere first.
"""

import argparse
import io
import json
import os
import random
import sys
import tokenize
from pathlib import Path

MAX_STEPS = 500
"""Lines that one call may execute: a candidate that loops for ever is just a wrong one."""

REPLACEMENTS = {
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-",),
    "-": ("+",),
    "*": ("+", "//"),
    "/": ("//",),
    "//": ("/", "%"),
    "%": ("//",),
    "+=": ("-=",),
    "-=": ("+=",),
    "and": ("or",),
    "or": ("and",),
    "True": ("False",),
    "False": ("True",),
    "min": ("max",),
    "max": ("min",),
}


class TooLong(BaseException):
    """A call ran into MAX_STEPS. Not an Exception, so that no candidate can swallow it."""


def edit_tokens(source):
    """Yield every source that differs from `source` in one operator, constant or number."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NUMBER and token.string.isdigit():
            changes = [str(int(token.string) + 1), str(int(token.string) - 1)]
        elif token.type in {tokenize.OP, tokenize.NAME}:
            changes = REPLACEMENTS.get(token.string, ())
        else:
            continue
        row, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
        for change in changes:
            line = lines[row][:start] + change + lines[row][end:]
            yield "".join([*lines[:row], line, *lines[row + 1 :]])


def call(function, args):
    """Call `function`, but not for ever."""
    steps = 0

    def count(_frame, _event, _argument):
        nonlocal steps
        steps += 1
        if steps > MAX_STEPS:
            raise TooLong
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        return function(*args)
    finally:
        sys.settrace(before)


def holds(source, name, example):
    """Whether the function called `name` in `source` does what `example` asks for."""
    scope = {"__name__": "solution"}
    try:
        exec(compile(source, "solution.py", "exec"), scope)
        args = json.loads(json.dumps(example["args"]))  # a copy: candidates may change their arguments
        return call(scope[name], args) == example["expected"]
    except (Exception, TooLong, SystemExit):  # noqa: BLE001 - whatever a candidate raises, it is wrong
        return False


def repair(source, name, examples, *, budget, chance):
    """Return a source for which all examples hold, or None, and how many candidates were tried."""
    edits = list(edit_tokens(source))
    chance.shuffle(edits)
    tried = 0
    for tried, candidate in enumerate([source, *edits][:budget], start=1):
        if all(holds(candidate, name, example) for example in examples):
            return candidate, tried
    return None, tried


def report(outcome, tried):
    """Write the agent's result."""
    env = os.environ
    ids = {key: env[f"AGENTLAB_{key.upper()}"] for key in ("run_id", "trial_id", "variant_id", "task_id")}
    result = {
        "schema_version": "agent_result_v1",
        "ids": {**ids, "repl_idx": int(env["AGENTLAB_REPL_IDX"])},
        "outcome": outcome,
        "metrics": {"candidates_tried": tried},
    }
    Path(env["AGENTLAB_RESULT_PATH"]).write_text(json.dumps(result), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, required=True, help="how many candidates to try")
    budget = parser.parse_args().budget
    task = json.loads(Path(os.environ["AGENTLAB_TASK_PATH"]).read_text(encoding="utf-8"))["input"]
    path = Path(os.environ["AGENTLAB_WORKSPACE"], "solution.py")
    chance = random.Random(f"{os.environ['AGENTLAB_TASK_ID']}/{os.environ['AGENTLAB_REPL_IDX']}")
    source = path.read_text(encoding="utf-8")
    mended, tried = repair(source, task["function"], task["examples"], budget=budget, chance=chance)
    if mended is None:
        print(f"no repair among {tried} candidates")
        report("failure", tried)
        return
    path.write_text(mended, encoding="utf-8")
    print(f"repaired after {tried} candidates")
    report("success", tried)


if __name__ == "__main__":
    main()
