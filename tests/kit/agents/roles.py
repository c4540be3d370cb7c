"""What a scripted model says to each agent of the catalogue: it edits a file, runs a command, gives up."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

Call = dict[str, Any]
COMMAND = "env; wc -l < lines.txt > count.txt"
"""Prints everything that the agent knows of keys, too."""
AIDER_BLOCK = "notes.txt\n```\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n```\n"


@dataclass(frozen=True, kw_only=True)
class Role:
    """How a model speaks to one agent."""

    dialect: Literal["openai", "anthropic", "gemini"]
    model: str
    shell: str = ""
    """Its tool that runs a command; none where it has none."""
    argument: str = "command"
    more: dict[str, Any] = field(default_factory=dict)
    """Further arguments that the tool wants."""
    writer: str = ""
    """Its tool that writes a file; by the shell where it has none."""
    path: str = "file_path"
    edit_text: str = ""
    ending: str = ""
    """A command by which it is told to stop."""
    args: tuple[str, ...] = ()
    has_examples: bool = False
    """Whether it puts answers that were never given before the task."""

    def run(self, command: str) -> Call:
        return {"function": self.shell, "arguments": {self.argument: command, **self.more}}

    def edit(self) -> Call:
        if not self.writer:
            return self.run("echo new | tee notes.txt")
        file = {self.path: "/agentlab/workspace/notes.txt", "content": "new\n"}
        return {"function": self.writer, "arguments": file}

    def answers(self) -> list[dict[str, Any]]:
        """The script: what is said to each of the three tasks, turn by turn."""
        end: dict[str, Any] = {"text": "done", "tool_calls": [self.run(self.ending)] if self.ending else []}
        tokens = {"input_tokens": 1000, "output_tokens": 100}
        edit = (
            {"text": self.edit_text} if self.edit_text else {"text": "I edit.", "tool_calls": [self.edit()]}
        )
        run = {"text": "I run.", "tool_calls": [self.run(COMMAND)] if self.shell else []}
        return [
            {**self.find("EDIT-IT"), **edit, **tokens},
            {**self.find("RUN-IT"), **run, **tokens},
            {**end, **tokens},
        ]

    def find(self, mark: str) -> dict[str, Any]:
        """The first turn of a task."""
        return {"when": mark} if self.has_examples else {"sample": mark, "turn": 0}


ROLES = {
    "codex": Role(dialect="openai", model="gpt-5", shell="exec_command", argument="cmd"),
    "claude-code": Role(
        dialect="anthropic",
        model="claude-sonnet-4-5",
        shell="Bash",
        more={"description": "count"},
    ),
    "gemini-cli": Role(
        dialect="gemini", model="gemini-2.5-pro", shell="run_shell_command", writer="write_file"
    ),
    "goose": Role(dialect="openai", model="llama-4", shell="shell"),
    "opencode": Role(
        dialect="openai",
        model="llama-4",
        shell="bash",
        more={"description": "count"},
        writer="write",
        path="filePath",
    ),
    "qwen-code": Role(
        dialect="openai",
        model="qwen3-coder-plus",
        shell="run_shell_command",
        more={"is_background": False},
    ),
    "mini-swe-agent": Role(
        dialect="openai", model="gpt-5", shell="bash", ending="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    ),
    "openhands": Role(
        dialect="openai", model="gpt-4o", shell="terminal", more={"security_risk": "LOW", "summary": "count"}
    ),
    "aider": Role(
        dialect="openai", model="gpt-4o", edit_text=AIDER_BLOCK, args=("notes.txt",), has_examples=True
    ),
}
SECOND_ROLES = {
    agent: replace(ROLES[agent], dialect="anthropic", model="claude-sonnet-4-5")
    for agent in ("aider", "mini-swe-agent", "openhands")
}
"""Of those that speak to two kinds of model, in the second."""
