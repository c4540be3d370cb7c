"""Runs untrusted code on given arguments and prints what it returns. Started by `grade.py`.

Before the code starts, this process gives up, for good, the right to open files and sockets: the kernel
refuses every new descriptor. An audit hook refuses signals and new processes.
"""

import bisect  # noqa: F401 - what solutions may import must be loaded before the doors close
import collections  # noqa: F401
import functools  # noqa: F401
import heapq  # noqa: F401
import itertools  # noqa: F401
import json
import math  # noqa: F401
import os
import re  # noqa: F401
import resource
import string  # noqa: F401
import sys

CPU_S = 2
MEMORY_BYTES = 1024**3
ANSWER_BYTES = 1024**2


def refuse(event, _arguments):
    """Refuse what pure functions never need: signals, processes, foreign code."""
    if event.startswith(("os.", "subprocess.", "ctypes.", "socket.", "signal.", "resource.")):
        raise PermissionError(f"{event} is not allowed in a solution")


def close_doors():
    """Take from this process what the code under test must not have. There is no way back."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (ANSWER_BYTES, ANSWER_BYTES))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    sys.addaudithook(refuse)


def answer(function, args):
    """Call the function; an exception is an answer too, and never the right one."""
    try:
        return {"value": function(*args)}
    except Exception as error:  # noqa: BLE001 - whatever the code under test raises is its answer
        return {"error": type(error).__name__}


def main():
    question = json.load(sys.stdin)
    answers = sys.stdout
    sys.stdout = sys.stderr  # what the code prints is no answer
    close_doors()
    scope = {"__name__": "solution"}
    exec(compile(question["source"], "solution.py", "exec"), scope)
    function = scope[question["function"]]
    values = [answer(function, args) for args in question["arguments"]]
    answers.write(json.dumps(values))
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
