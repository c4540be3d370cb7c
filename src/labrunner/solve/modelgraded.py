"""Scorers that ask a model whether an answer is right."""

import re
from typing import Final

from labrunner.solve.metrics import accuracy, stderr
from labrunner.solve.model import Model, get_model
from labrunner.solve.sample import Target
from labrunner.solve.score import CORRECT, INCORRECT, PARTIAL, Score
from labrunner.solve.scorer import Judge, Scorer, scorer
from labrunner.solve.solvers import fill, read_template
from labrunner.solve.state import TaskState

TEMPLATE: Final = (
    "You judge an answer to a task.\n\n[BEGIN TASK]\n{question}\n[END TASK]\n\n[BEGIN ANSWER]\n{answer}\n"
    "[END ANSWER]\n\n[BEGIN CRITERION]\n{criterion}\n[END CRITERION]\n\n"
    "Does the answer meet the criterion?\n\n{instructions}"
)
FACT_TEMPLATE: Final = (
    "You compare an answer with an expert's.\n\n[BEGIN QUESTION]\n{question}\n[END QUESTION]\n\n"
    "[BEGIN EXPERT]\n{criterion}\n[END EXPERT]\n\n[BEGIN ANSWER]\n{answer}\n[END ANSWER]\n\n"
    "Does the answer hold what the expert's holds? Style, grammar and additions do not matter.\n\n"
    "{instructions}"
)
_PATTERN: Final = r"(?i)GRADE\s*:\s*([CPI])\b"


@scorer(metrics=[accuracy(), stderr()])
def model_graded_qa(
    template: str | None = None,
    instructions: str | None = None,
    grade_pattern: str | None = None,
    include_history: bool = False,
    partial_credit: bool = False,
    model: str | Model | None = None,
) -> Scorer:
    """Ask a model whether the answer meets the target as its criterion; without `model`, the trial's own.

    With `include_history` it is shown the conversation, not only what was asked first.
    """
    text = read_template(template or TEMPLATE)
    told = instructions or _instructions(partial_credit)
    wanted = re.compile(grade_pattern or _PATTERN)

    async def score(state: TaskState, target: Target) -> Score:
        values = {
            "question": _history(state) if include_history else state.input_text,
            "answer": state.output.completion,
            "criterion": target.text,
            "instructions": told,
        }
        prompt = fill(text, state, values)
        verdict = (await get_model(model).generate(prompt)).completion
        found = wanted.findall(verdict)
        if not found:
            return Score(INCORRECT, state.output.completion, f"no grade was found in: {verdict}")
        return Score(_grade(found[-1], partial_credit), state.output.completion, verdict)

    return score


def model_graded_fact(
    template: str | None = None,
    instructions: str | None = None,
    grade_pattern: str | None = None,
    include_history: bool = False,
    partial_credit: bool = False,
    model: str | Model | None = None,
) -> Judge:
    """Ask a model whether the answer holds the facts of the target."""
    judge = model_graded_qa(
        template or FACT_TEMPLATE,
        instructions,
        grade_pattern,
        include_history=include_history,
        partial_credit=partial_credit,
        model=model,
    )
    return Judge("model_graded_fact", judge.call, judge.metrics, judge.arguments)


model_graded = model_graded_qa


def _history(state: TaskState) -> str:
    """What was said up to the answer; system messages are no part of the question."""
    said = [message for message in state.messages if message.role != "system"]
    if said and said[-1].role == "assistant":
        said.pop()
    return "\n\n".join(f"{message.role}: {message.content}" for message in said)


def _instructions(partial_credit: bool) -> str:
    partly = " P when it does in part," if partial_credit else ""
    return (
        f"Think first. Then write, on the last line, GRADE: followed by C when it does,{partly} or I when "
        "it does not, and nothing else."
    )


def _grade(letter: str, partial_credit: bool) -> str:
    grade = letter.upper()
    if grade == PARTIAL:
        return PARTIAL if partial_credit else INCORRECT
    return CORRECT if grade == CORRECT else INCORRECT
