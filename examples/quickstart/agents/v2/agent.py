"""Repairs a Python function: finds the suspicious lines, knows more kinds of edits, and keeps progress.

What it does more than v1, within the same `--budget` of candidates:

- fault localisation: lines that run in failing examples and not in passing ones are edited first;
- more edits: another variable, swapped operands and arguments, a guard for empty input;
- climbing: an edit that makes more examples hold is kept, and the search goes on from there, so that
  functions with several faults can be mended.
"""

import argparse
import ast
import io
import itertools
import json
import keyword
import math
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


class Source:
    """A candidate's text, with what edits need to know about it."""

    def __init__(self, text):
        self.text = text
        self.lines = text.splitlines(keepends=True)
        self.tree = ast.parse(text)
        self.function = next(node for node in self.tree.body if isinstance(node, ast.FunctionDef))
        self.params = [arg.arg for arg in self.function.args.args]
        stored = (node for node in ast.walk(self.function) if isinstance(node, ast.Name))
        self.names = {*self.params, *(node.id for node in stored if isinstance(node.ctx, ast.Store))}

    def replaced(self, row, start, end, new):
        """Return the text with columns start..end of line `row` (from 1) replaced."""
        line = self.lines[row - 1]
        return "".join([*self.lines[: row - 1], line[:start] + new + line[end:], *self.lines[row:]])


def edit_tokens(source):
    """Yield (line, text) for every change of one operator, constant, number or variable."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.NUMBER and token.string.isdigit():
            changes = [str(int(token.string) + 1), str(int(token.string) - 1)]
        elif token.type in {tokenize.OP, tokenize.NAME}:
            changes = [*REPLACEMENTS.get(token.string, ())]
        else:
            continue
        if token.string in source.names and not keyword.iskeyword(token.string):
            changes += sorted(source.names - {token.string})
        if token.start[0] == source.function.lineno:
            continue  # the head stays: callers depend on it
        for change in changes:
            yield token.start[0], source.replaced(token.start[0], token.start[1], token.end[1], change)


def edit_order(source):
    """Yield (line, text) for every swap of two operands or two neighbouring arguments."""
    for node in ast.walk(source.function):
        match node:
            case ast.BinOp(left=first, right=second) | ast.Compare(left=first, comparators=[second]):
                pairs = [(first, second)]
            case ast.Call(args=args):
                pairs = list(itertools.pairwise(args))
            case _:
                continue
        for first, second in pairs:
            if first.lineno == second.end_lineno:
                line = source.lines[first.lineno - 1]
                parts = (
                    line[second.col_offset : second.end_col_offset],
                    line[first.end_col_offset : second.col_offset],
                    line[first.col_offset : first.end_col_offset],
                )
                new = "".join(parts)
                yield (
                    first.lineno,
                    source.replaced(first.lineno, first.col_offset, second.end_col_offset, new),
                )


def edit_guards(source, examples):
    """Yield (line, text) for guards that return early on empty input, with values seen in examples."""
    body = source.function.body
    first = body[1] if ast.get_docstring(source.function) is not None and len(body) > 1 else body[0]
    indent = " " * first.col_offset
    for example in examples:
        for param, value in zip(source.params, example["args"], strict=False):
            if not value:
                guard = f"{indent}if not {param}:\n{indent}    return {example['expected']!r}\n"
                before, after = source.lines[: first.lineno - 1], source.lines[first.lineno - 1 :]
                yield first.lineno, "".join([*before, guard, *after])


def call(function, args):
    """Call `function`, but not for ever; return whether it returned, its value, and the lines that ran."""
    steps, ran = 0, set()

    def watch(frame, _event, _argument):
        nonlocal steps
        steps += 1
        if steps > MAX_STEPS:
            raise TooLong
        ran.add(frame.f_lineno)
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        return True, function(*args), ran
    except (Exception, TooLong, SystemExit):  # noqa: BLE001 - whatever a candidate raises, it is wrong
        return False, None, ran
    finally:
        sys.settrace(before)


def run_examples(text, name, examples):
    """Run every example; return (holds, lines that ran) of each."""
    scope = {"__name__": "solution"}
    try:
        exec(compile(text, "solution.py", "exec"), scope)
    except Exception:  # noqa: BLE001 - a candidate that does not even load is wrong
        return [(False, set()) for _ in examples]
    outcomes = []
    for example in examples:
        args = json.loads(json.dumps(example["args"]))  # a copy: candidates may change their arguments
        returned, value, ran = call(scope[name], args)
        outcomes.append((returned and value == example["expected"], ran))
    return outcomes


def count(outcomes):
    """How many examples hold."""
    return sum(held for held, _ in outcomes)


def suspicion(line, outcomes):
    """How closely running `line` goes with failing (Ochiai's measure), from 0 to 1."""
    failing = sum(not held for held, _ in outcomes)
    hit_failing = sum(not held and line in ran for held, ran in outcomes)
    hit = sum(line in ran for _, ran in outcomes)
    return hit_failing / math.sqrt(failing * hit) if hit and failing else 0.0


def order_edits(source, examples, outcomes, chance):
    """Return the edited texts, the most promising first; equal ones in an order drawn by `chance`."""
    failing = [example for example, (held, _) in zip(examples, outcomes, strict=True) if not held]
    guards = [text for _, text in edit_guards(source, failing)]
    edits = [*edit_tokens(source), *edit_order(source)]
    chance.shuffle(edits)
    edits.sort(key=lambda edit: -suspicion(edit[0], outcomes))
    return dict.fromkeys([*guards, *(text for _, text in edits)])


def repair(text, name, examples, *, budget, chance):
    """Climb to a text for which all examples hold; return it, or None, and the number of candidates tried.

    A step is taken only when no single edit mends everything: half a repair is often the wrong half.
    """
    tried, outcomes = 1, run_examples(text, name, examples)
    while count(outcomes) < len(examples):
        step, reached = None, count(outcomes)
        for candidate in order_edits(Source(text), examples, outcomes, chance):
            if tried >= budget:
                return None, tried
            tried += 1
            held = count(run_examples(candidate, name, examples))
            if held == len(examples):
                return candidate, tried
            if held > reached:
                step, reached = candidate, held
        if step is None:
            return None, tried
        text, outcomes = step, run_examples(step, name, examples)
    return text, tried


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
