"""Scorers that ask a model whether an answer is right."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from labrunner.errors import AttemptFailed
from labrunner.records.cause import Cause
from labrunner.solve.authoring.scorer import Judge, Scorer, scorer, within
from labrunner.solve.library.solvers import fill, read_template
from labrunner.solve.models.asking import Model, get_model
from labrunner.solve.scoring.extraction import read_grade
from labrunner.solve.scoring.metrics import accuracy, stderr
from labrunner.solve.values.messages import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
)
from labrunner.solve.values.sample import Target
from labrunner.solve.values.score import Score
from labrunner.solve.values.state import TaskState
from labrunner.solve.values.transcript import shorten

MOST_SHOWN: Final = 2000
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
_BORDER: Final = re.compile(r"\[(BEGIN|END) (?=(?:TASK|QUESTION|ANSWER|EXPERT|CRITERION)\])", re.IGNORECASE)
"""What our templates set their parts apart with: an answer that holds one must not end its own part."""


class NoGrade(AttemptFailed):
    """A judge gave no grade that it was asked for: its word is missing, which is no word on the answer."""

    cause = Cause.SOLVER


@scorer(metrics=[accuracy(), stderr()])
def model_graded_qa(
    template: str | None = None,
    instructions: str | None = None,
    grade_pattern: str | None = None,
    include_history: bool | Callable[[TaskState], str] = False,
    partial_credit: bool = False,
    model: str | Model | None = None,
) -> Scorer:
    """Ask a model whether the answer meets the target as its criterion; without `model`, the trial's own.

    A `template` of your own has `{question}`, `{answer}`, `{criterion}` and `{instructions}`; `instructions`
    say how to grade, and what `grade_pattern` finds first is the score's value. With `include_history` the
    model is shown the conversation, not only what was asked first.
    """
    text = read_template(template or TEMPLATE)
    told = instructions or _instructions(partial_credit)
    wanted = None if grade_pattern is None else re.compile(grade_pattern)
    offered = None if instructions else "CPI" if partial_credit else "CI"

    async def score(state: TaskState, target: Target) -> Score:
        values = {
            "question": _within_borders(_question(state, include_history)),
            "answer": _within_borders(state.output.completion),
            "criterion": _within_borders(target.text),
            "instructions": told,
        }
        prompt = fill(text, state, values)
        verdict = (await get_model(model).generate(prompt)).completion
        grade = read_grade(verdict, offered) if wanted is None else _first(wanted, verdict)
        if grade is None:
            raise NoGrade(
                "no_grade", f"no grade was found in what the model said: {shorten(verdict, MOST_SHOWN)}"
            )
        return Score(grade, state.output.completion, verdict)

    # A pattern of somebody's own may find any number; C, P and I are 1, a half and 0.
    return within(0.0, 1.0, score) if wanted is None else score


def model_graded_fact(
    template: str | None = None,
    instructions: str | None = None,
    grade_pattern: str | None = None,
    include_history: bool | Callable[[TaskState], str] = False,
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
    return replace(judge, name="model_graded_fact")


model_graded = model_graded_qa


def _question(state: TaskState, include_history: bool | Callable[[TaskState], str]) -> str:
    if callable(include_history):
        return include_history(state)
    return _history(state) if include_history else state.input_text


def _history(state: TaskState) -> str:
    """What was said up to the last answer; system messages are no part of the question."""
    said = [message for message in state.messages if not isinstance(message, ChatMessageSystem)]
    answers = [at for at, message in enumerate(said) if isinstance(message, ChatMessageAssistant)]
    kept = said[: answers[-1]] if answers else said
    return "\n\n".join([*(each.content for each in kept[:1]), *(_speak(each) for each in kept[1:])])


def _speak(message: ChatMessage) -> str:
    match message:
        case ChatMessageAssistant():
            calls = [f"{call.function}({json.dumps(call.arguments)})" for call in message.tool_calls or ()]
            return "\n\n".join([f"Assistant: {message.content}".rstrip(), *calls])
        case ChatMessageTool():
            error = f"{message.error.message} " if message.error else ""
            return f"Tool ({message.function}): {error}{message.content}"
        case _:
            return f"{message.role.capitalize()}: {message.content}"


def _within_borders(text: str) -> str:
    return _BORDER.sub(r"[\1-", text)


def _first(wanted: re.Pattern[str], verdict: str) -> str | None:
    found = wanted.search(verdict)
    return None if found is None else found[1] if wanted.groups else found[0]


def _instructions(partial_credit: bool) -> str:
    partly = " P when it does in part," if partial_credit else ""
    return (
        f"Think first. Then write, on the last line, GRADE: followed by C when it does,{partly} or I when "
        "it does not, and nothing else."
    )
