"""An agent: a model with one tool, a shell, in a loop until it needs no tool any more.

Only the standard library: the address and the key of the model are in the environment, put there by lab.
The key is worth nothing outside of this attempt.
"""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

MODEL = sys.argv[1]
URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
KEY = os.environ["OPENAI_API_KEY"]
SHELL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a command in the workspace and see what it prints.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


def ask(messages):
    """What the model says next."""
    body = {"model": MODEL, "messages": messages, "tools": [SHELL], "max_tokens": 500}
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=100) as answer:
        return json.load(answer)["choices"][0]["message"]


def run(command):
    """What a command prints."""
    done = subprocess.run(command, shell=True, check=False, capture_output=True, text=True, timeout=30)
    return done.stdout + done.stderr


task = pathlib.Path(os.environ["AGENTLAB_PROMPT_PATH"]).read_text()
messages = [
    {"role": "system", "content": "Solve the task with the shell, then say what you did."},
    {"role": "user", "content": task},
]
while True:
    message = ask(messages)
    messages.append(message)
    for call in message.get("tool_calls") or []:
        command = json.loads(call["function"]["arguments"])["command"]
        print(f"$ {command}", flush=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": run(command)})
    if not message.get("tool_calls"):
        print(message["content"])
        break
