"""Questions about files, for a model with a shell.

lab run files.py --model mock/answers.json      answered by a script: no provider, no cost
lab run files.py --model openai/gpt-5-mini      needs `pip install 'labrunner[models]'` and OPENAI_API_KEY
"""

from labrunner import Task, task
from labrunner.dataset import json_dataset
from labrunner.scorer import includes
from labrunner.solver import generate, system_message, use_tools
from labrunner.tool import bash


@task
def files(seconds: int = 30):
    return Task(
        dataset=json_dataset("questions.jsonl"),
        solver=[
            system_message("Look at the files with the tool, then answer in one sentence."),
            use_tools([bash(timeout=seconds)]),
            generate(),
        ],
        scorer=includes(),
        sandbox="@SANDBOX@",
        fail_on_error=0.1,  # tolerate errors in one sample of ten
        retry_on_error=1,
    )
