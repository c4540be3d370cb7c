"""Free answers, judged by a model."""

from labrunner import Task, task
from labrunner.dataset import csv_dataset
from labrunner.scorer import model_graded_qa
from labrunner.solver import generate, prompt_template

TEMPLATE = """
Explain to a child of ten, in two sentences at most:

{prompt}
"""


@task
def explain(judge: str | None = None):
    return Task(
        dataset=csv_dataset("questions.csv"),
        solver=[prompt_template(TEMPLATE), generate(max_tokens=200)],
        scorer=model_graded_qa(model=judge, partial_credit=True),
    )
