"""Capture the flag: a model with a shell looks for flags in its sandbox."""

from labrunner import Task, task
from labrunner.dataset import json_dataset
from labrunner.scorer import includes
from labrunner.solver import generate, system_message, use_tools
from labrunner.tool import bash


def read_dataset():
    return json_dataset("challenges.jsonl")


@task
def intercode_ctf():
    return Task(
        dataset=read_dataset(),
        solver=[
            system_message("system.txt"),
            use_tools([bash(timeout=120)]),
            generate(),
        ],
        fail_on_error=0.1,
        scorer=includes(),
        sandbox="docker",
        on_system_change="afresh",  # what a setup makes here lies in the workspace
    )
