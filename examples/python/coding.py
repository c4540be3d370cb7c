"""Coding: the model writes a function, and tests in its sandbox judge it."""

from labrunner import Task, task
from labrunner.dataset import Sample
from labrunner.scorer import CORRECT, INCORRECT, Score, Target, accuracy, scorer, stderr
from labrunner.solver import TaskState, generate, system_message
from labrunner.tool import sandbox

SYSTEM = "Write the Python function that is asked for, in one code block, and nothing else."
FUNCTIONS = {
    "reverse": ("Write reverse(text), which gives a text backwards.", "assert reverse('abc') == 'cba'"),
    "clamp": (
        "Write clamp(x, low, high), which keeps x between low and high.",
        "assert [clamp(x, 0, 5) for x in (-1, 3, 9)] == [0, 3, 5]",
    ),
    "evens": ("Write evens(numbers), the list of even ones.", "assert evens([1, 2, 3, 4]) == [2, 4]"),
}


def find_code(completion: str) -> str:
    _, _, rest = completion.partition("```")
    code, _, _ = rest.partition("```")
    return code.removeprefix("python").strip() if code else completion


@scorer(metrics=[accuracy(), stderr()])
def verify():
    async def score(state: TaskState, target: Target):
        code = find_code(state.output.completion)
        await sandbox().write_file("solution.py", f"{code}\n\n{target.text}\n")
        try:
            result = await sandbox().exec(["python3", "solution.py"], timeout=30)
        except TimeoutError:
            return Score(value=INCORRECT, answer=code, explanation="the tests ran into their time limit")
        value = CORRECT if result.success else INCORRECT
        return Score(value=value, answer=code, explanation=result.stderr)

    return score


@task
def functions():
    return Task(
        dataset=[Sample(input=asked, target=tests, id=name) for name, (asked, tests) in FUNCTIONS.items()],
        solver=[system_message(SYSTEM), generate()],
        scorer=verify(),
        sandbox="docker",
    )
