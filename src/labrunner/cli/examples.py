"""How each command is called, by examples: what the reference page shows above a command's options."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "lab import": (
            "lab import harbor tasks/hello -o hello        # a task folder of Harbor's",
            "lab import harbor tasks -o mine --skip-refused  # a data set, without what can't be run here",
        ),
        "lab init": (
            "lab init mine                          # one agent, three tasks, a grader",
            "lab init chat --template python        # a task in Python, with a mock model",
        ),
        "lab run": (
            "lab run --limit 3 --replications 1     # a first look at ./experiment.yaml",
            "lab run night.yaml --retry-on-error=2 --fail-on-error=0.05",
            "lab run files.py --model mock/echo -T seconds=5",
            "lab run --agent oracle --agent noop    # is each task solvable, and unsolved at its start?",
        ),
        "lab plan": (
            "lab plan                               # every default filled in, and the order of trials",
            "lab plan --variant v2 --task-id 'git-*'",
        ),
        "lab doctor": (
            "lab doctor                             # this folder's experiment; without one, this machine",
            "lab doctor night.yaml --env-file .env",
        ),
        "lab continue": (
            "lab continue                           # the newest run that is not finished",
            "lab continue last --fail-on-error=0.2",
        ),
        "lab retry": (
            "lab retry last --dry-run               # what would be taken over, what run, and why",
            "lab retry last --replications 5        # the same with more repeats",
        ),
        "lab set": ("lab set easy.yaml hard.yaml --log-dir runs/june --retry-attempts 3",),
        "lab stop": ("lab stop last",),
        "lab show": (
            "lab show last",
            "lab show last divide.short.0           # one trial: why did it fail?",
            "lab show last divide.short.0 --follow  # what is it doing?",
            'lab show last --require "pass >= 0.9"  # exit code 4 when not',
        ),
        "lab shell": (
            "lab shell last divide.short.0          # what its agent left, as its grader found it",
            "lab shell experiment.yaml divide       # a task as an agent finds it",
            "lab shell last divide.short.0 -- git diff",
        ),
        "lab view": (
            "lab view                               # all runs of this folder, in a browser",
            "lab view last --no-open --port 8000",
        ),
        "lab compare": (
            "lab compare last --baseline v1",
            "lab compare Gprr29Mv k3Lm9QxZ          # two runs, by the ends of their ids",
        ),
        "lab query": (
            "lab query last \"select trial_id, cause, reason from trials where outcome = 'failed'\"",
            'lab query last "select * from metrics" --format csv --output metrics.csv',
        ),
        "lab export": (
            "lab export last --to html",
            "lab export last --to markdown -o - >> report.md",
        ),
        "lab log list": ("lab log list --status started",),
        "lab log show": ("lab log show last",),
        "lab log recover": (
            "lab log recover --list                 # which runs crashed",
            "lab log recover night",
        ),
        "lab agents list": ("lab agents list --check                # read all files of agents again",),
        "lab agents show": ("lab agents show codex                  # what it can be told",),
        "lab agents install": ("lab agents install codex==0.166.0",),
        "lab agents remove": ("lab agents remove codex                # all releases of it",),
        "lab regrade": (
            "lab regrade last --grader grader-v2    # the same work, another judge",
            "lab regrade last --times 3             # whose verdicts differ from time to time?",
            "lab regrade last --trial divide.short  # only this one",
        ),
        "lab invalidate": (
            'lab invalidate last --where "task_id = \'river\'" --reason "its answer was wrong" --dry-run',
        ),
        "lab verify": ("lab verify last",),
        "lab clean": (
            "lab clean --list                       # only look",
            "lab clean --yes",
        ),
        "lab completion": (
            "lab completion bash >> ~/.bashrc       # zsh alike",
            "lab completion fish > ~/.config/fish/completions/lab.fish",
        ),
    }
)
