"""The solvers that come with the package."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from labrunner.solve.authoring.solver import Generate, Solver, Step, ToolCalls, as_steps, run_steps, solver
from labrunner.solve.scoring.extraction import label, read_choices
from labrunner.solve.values.config import make_config
from labrunner.solve.values.description import describe
from labrunner.solve.values.messages import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
)
from labrunner.solve.values.state import TaskState
from labrunner.solve.values.task_folder import resolve_path
from labrunner.solve.values.tool import Tool, as_tool

_FIELD: Final = re.compile(r"\{(\w+)\}")


@solver
def generate(tool_calls: ToolCalls = "loop", **settings: Any) -> Solver:  # noqa: ANN401 - of GenerateConfig
    """Ask the model, and run the tools that it asks for."""
    make_config(settings, "generate")  # refused here, not in the first sample

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await generate(state, tool_calls, **settings)

    return solve


def system_message(template: str, **params: Any) -> Step:  # noqa: ANN401 - put into the template
    """Put a system message before the conversation, after those that are there. A text, or a file's path."""
    text = read_template(template)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate
        after = sum(isinstance(message, ChatMessageSystem) for message in state.messages)
        state.messages.insert(after, ChatMessageSystem(fill(text, state, params)))
        return state

    return _step("system_message", solve, text, params)


def user_message(template: str, **params: Any) -> Step:  # noqa: ANN401 - put into the template
    """Say something as the user. A text, or a file's path."""
    text = read_template(template)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate
        state.messages.append(ChatMessageUser(fill(text, state, params)))
        return state

    return _step("user_message", solve, text, params)


def assistant_message(template: str, **params: Any) -> Step:  # noqa: ANN401 - put into the template
    """Say something as the model. A text, or a file's path."""
    text = read_template(template)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate
        state.messages.append(ChatMessageAssistant(fill(text, state, params)))
        return state

    return _step("assistant_message", solve, text, params)


def prompt_template(template: str, **params: Any) -> Step:  # noqa: ANN401 - put into the template
    """Write the user's prompt anew: `{prompt}` stands for what it was. A text, or a file's path."""
    text = read_template(template)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate
        prompt = state.user_prompt
        prompt.text = fill(text, state, {"prompt": prompt.text, **params})
        return state

    return _step("prompt_template", solve, text, params)


CHAIN_OF_THOUGHT: Final = (
    "{prompt}\n\nThink step by step before you answer. On the last line write ANSWER: followed by your "
    "answer, and nothing else."
)


def chain_of_thought(template: str = CHAIN_OF_THOUGHT) -> Step:
    """Ask the model to think before it answers."""
    step = prompt_template(template)
    return Step("chain_of_thought", step.call, step.arguments)


@solver
def use_tools(
    *tools: Tool | Callable[..., Any] | Sequence[Tool | Callable[..., Any]], tool_choice: str | None = "auto"
) -> Solver:
    """Give the model tools, instead of those that it had."""
    listed = [each for group in tools for each in (group if isinstance(group, Sequence) else [group])]
    given = [as_tool(each) for each in listed]

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate
        state.tools = list(given)
        state.tool_choice = tool_choice
        return state

    return solve


def chain(*solvers: Callable[..., Any] | Sequence[Callable[..., Any]]) -> Step:
    """Several solvers as one."""
    steps = tuple(step for each in solvers for step in as_steps(each))

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await run_steps(steps, state, generate)

    return Step("chain", solve, {"solvers": describe(steps)})


MULTIPLE_CHOICE: Final = (
    "Answer the following multiple choice question. The last line of your answer must be 'ANSWER: LETTER', "
    "without quotes, where LETTER is one of {letters}.\n\n{question}\n\n{choices}"
)
SEVERAL_CHOICES: Final = (
    "Answer the following multiple choice question, where several choices may be right. The last line of "
    "your answer must be 'ANSWER: LETTERS', without quotes, where LETTERS is one or more of {letters}.\n\n"
    "{question}\n\n{choices}"
)
THINK_FIRST: Final = "\n\nThink step by step before you answer."


@solver
def multiple_choice(
    *,
    template: str | None = None,
    cot: bool = False,
    multiple_correct: bool = False,
    shuffle: bool | int = False,
    max_tokens: int | None = None,
) -> Solver:
    """Ask a multiple-choice question and note which choices the model takes; `choice()` scores it.

    A `template` of your own, a text or a file's path, has `{question}`, `{choices}` and maybe `{letters}`.
    `cot` asks for thoughts before the answer, where there is no template of your own.
    `shuffle`, true or a seed, puts the choices into an order of the sample's own, the same in every run.
    """
    own = SEVERAL_CHOICES if multiple_correct else MULTIPLE_CHOICE
    text = read_template(template or (own + THINK_FIRST if cot else own))
    if "{question}" not in text or "{choices}" not in text:
        raise ValueError("a template of multiple_choice() needs {question} and {choices} in it")

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if not state.choices:
            raise ValueError(f"sample {state.sample_id} has no choices, which multiple_choice() asks about")
        if shuffle is not False:
            random.Random(f"{int(shuffle)} {state.sample_id}").shuffle(state.choices.choices)
        letters = [label(index) for index in range(len(state.choices))]
        listed = "\n".join(
            f"{letter}) {choice.value}" for letter, choice in zip(letters, state.choices, strict=True)
        )
        prompt = state.user_prompt
        values = {"question": prompt.text, "choices": listed, "letters": ",".join(letters)}
        prompt.text = fill(text, state, values)
        state = await generate(state, max_tokens=max_tokens)
        chosen = read_choices(state.output.completion, letters, several=multiple_correct)
        for index, letter in enumerate(letters):
            state.choices.mark_choice(index, letter in chosen)
        return state

    return solve


def read_template(template: str) -> str:
    """A template's text: the file's where it names one, else itself."""
    if "\n" in template or len(template) > 255:
        return template
    path: Path = resolve_path(template)
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else template
    except (OSError, ValueError):
        return template


def fill(template: str, state: TaskState, params: Mapping[str, Any]) -> str:
    """Put values into `{name}`; a name that nobody knows stays as it stands."""
    values = {**state.values, **params}
    return _FIELD.sub(lambda found: str(values[found[1]]) if found[1] in values else found[0], template)


def _step(name: str, solve: Solver, text: str, params: Mapping[str, Any]) -> Step:
    return Step(name, solve, {"text": text, "params": describe(params)})


def as_conversation(given: str | Sequence[ChatMessage]) -> list[ChatMessage]:
    """A sample's input as the conversation that a solver starts with."""
    return [ChatMessageUser(given)] if isinstance(given, str) else list(given)
