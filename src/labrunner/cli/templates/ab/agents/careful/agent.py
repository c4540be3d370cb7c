"""Version B: evaluates the whole expression, with precedence and true division."""

import ast
import operator
import os
import pathlib

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def value(node):
    """Evaluate a parsed expression of numbers."""
    if isinstance(node, ast.BinOp):
        return OPERATIONS[type(node.op)](value(node.left), value(node.right))
    return node.value


prompt = pathlib.Path(os.environ["AGENTLAB_PROMPT_PATH"]).read_text()
answer = value(ast.parse(prompt, mode="eval").body)
pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").write_text(str(answer))
