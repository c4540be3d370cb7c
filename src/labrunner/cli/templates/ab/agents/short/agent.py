"""Version A: understands one operation at a time."""

import os
import pathlib

words = pathlib.Path(os.environ["AGENTLAB_PROMPT_PATH"]).read_text().split()
left, operator, right = words[:3]
if operator == "+":
    answer = int(left) + int(right)
elif operator == "*":
    answer = int(left) * int(right)
else:
    answer = int(left) // int(right)

pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt").write_text(str(answer))
