"""The agent under test: reads the task, leaves its answer in the workspace. Put your own here."""

import os
import pathlib

prompt = pathlib.Path(os.environ["AGENTLAB_PROMPT_PATH"]).read_text()
left, operator, right = prompt.split()
if operator == "+":
    answer = int(left) + int(right)
elif operator == "*":
    answer = int(left) * int(right)
else:
    answer = int(left) // int(right)  # a bug, so that the first run has something to find

pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").write_text(str(answer))
