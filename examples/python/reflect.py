"""A solver of one's own: answer, look at the answer again, and mend it."""

from labrunner import Task, task
from labrunner.dataset import Sample
from labrunner.model import ChatMessageUser
from labrunner.scorer import match
from labrunner.solver import Generate, TaskState, solver

PROBLEMS = {
    "17 * 3": "51",
    "96 / 8": "12",
    "2 ** 10": "1024",
    "1000 - 7": "993",
}


@solver
def reflect(rounds: int = 1):
    async def solve(state: TaskState, generate: Generate):
        state = await generate(state)
        for _ in range(rounds):
            state.messages.append(ChatMessageUser(content="Check your answer. Write only the right number."))
            state = await generate(state)
        return state

    return solve


@task
def arithmetic(rounds: int = 1):
    return Task(
        dataset=[
            Sample(input=f"What is {problem}?", target=answer, id=str(number))
            for number, (problem, answer) in enumerate(PROBLEMS.items(), 1)
        ],
        solver=reflect(rounds),
        scorer=match(numeric=True),
    )
