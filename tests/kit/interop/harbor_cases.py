"""Harbor tasks that are judged twice: by Harbor's own harness, and by `lab`; and what each says of them.

The table of `docs/foreign-tasks.md` is made of these, and `scripts/peers` sees whether both say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.kit.interop.harbor_tasks import SOLVE, TEST, TOML, write_task
from tests.kit.interop.verdicts import ERROR, HALF, NOP, ORACLE, REFUSED, Said

PUBLIC: Final = TOML.replace("no-network", "public").replace("_sec = 30.0", "_sec = 60.0")
"""Harbor's sidecar for other networks is made from an image of a registry."""
REWARD: Final = "/logs/verifier/reward"


@dataclass(frozen=True, kw_only=True)
class Case(Said):
    """A task folder."""

    test: str = TEST
    solve: str = SOLVE
    half: str = "#!/bin/sh\necho 41 >answer.txt\n"
    toml: str = PUBLIC
    dockerfile: str = ""


def judged(end: str) -> str:
    """A test that knows whether the answer is right, and ends like this."""
    return f'#!/bin/sh\nok=0\n[ "$(cat answer.txt)" = 42 ] && ok=1\n{end}\n'


def telling(what: str, kind: str = "json") -> str:
    """A test that writes a reward."""
    return judged(f"cat >{REWARD}.{kind} <<END\n{what}\nEND")


def finding(what: str) -> str:
    """A test whose reward is 1 where a condition of sh holds."""
    return f"#!/bin/sh\nok=0\nif {what}; then ok=1; fi\necho $ok >{REWARD}.txt\n"


def solving(what: str) -> str:
    return f"#!/bin/sh\n{what}\n"


def changed(old: str, new: str) -> str:
    assert old in PUBLIC
    return PUBLIC.replace(old, new)


GOOD: Final = {ORACLE: "1", NOP: "0"}
ALL: Final = {ORACLE: "1", HALF: "0", NOP: "0"}
ALWAYS: Final = {ORACLE: "1"}
NEVER: Final = {ORACLE: ERROR}
REWARDS: Final[Mapping[str, Case]] = {
    "text": Case(shows="`reward.txt` with 1 or 0", theirs=ALL),
    "share": Case(
        shows="a share of what was asked",
        test=(
            "#!/bin/sh\ncat answer.txt 2>/dev/null | "
            f"awk '$1 == NR {{ n++ }} END {{ print n / 4 }}' >{REWARD}.txt\n"
        ),
        solve=solving("printf '1\\n2\\n3\\n4\\n' >answer.txt"),
        half=solving("printf '1\\n2\\n0\\n0\\n' >answer.txt"),
        theirs={ORACLE: "1", HALF: "0.5", NOP: "0"},
    ),
    "object": Case(shows="`reward.json`", test=telling('{"reward": $ok}'), theirs=ALL),
    "both": Case(
        shows="both files: JSON counts",
        test=judged(f'echo "{{\\"reward\\": $ok}}" >{REWARD}.json; echo 7 >{REWARD}.txt'),
        theirs=GOOD,
    ),
    "several": Case(
        shows="several rewards, one called `reward`",
        test=telling('{"speed": 3, "reward": $ok}'),
        theirs={ORACLE: "1, speed 3", NOP: "0, speed 3"},
    ),
    "own": Case(shows="one reward of another name", test=telling('{"speed": $ok}'), theirs=GOOD),
    "exits": Case(
        shows="a reward, and `test.sh` exits with 3",
        test=judged(f"echo $ok >{REWARD}.txt; exit 3"),
        theirs=GOOD,
    ),
    "several_without": Case(
        shows="several rewards, none called `reward`",
        test=telling('{"a": 1, "b": $ok}'),
        theirs={ORACLE: "a 1, b 1", NOP: "a 1, b 0"},
        ours={ORACLE: ERROR, NOP: ERROR},
        why="one of them has to be the score: `--set grader.metric.name=b` says which",
    ),
    "room": Case(shows="white space around a number", test=telling("  \t1.0 ", "txt"), theirs=ALWAYS),
    "point": Case(shows="`.5`", test=telling(".5", "txt"), theirs={ORACLE: "0.5"}),
    "negative": Case(shows="`-.5e1`", test=telling("-.5e1", "txt"), theirs={ORACLE: "-5"}),
    "truth": Case(shows="`true`", test=telling('{"reward": true}'), theirs=ALWAYS),
    "twice": Case(
        shows="a name that is there twice",
        test=telling('{"reward": 0, "reward": 1}'),
        theirs=ALWAYS,
        ours={ORACLE: ERROR},
        why="nothing says which of the two is meant",
    ),
    "digits": Case(
        shows="`1_0`, as Python writes numbers",
        test=telling("1_0", "txt"),
        theirs={ORACLE: "10"},
        ours={ORACLE: ERROR},
        why="it is no number outside of Python",
    ),
    "no_object": Case(shows="`reward.json` is `1`", test=telling("1"), theirs=NEVER),
    "quoted": Case(shows='`{"reward": "1"}`', test=telling('{"reward": "1"}'), theirs=NEVER),
    "nested": Case(shows='`{"reward": {"a": 1}}`', test=telling('{"reward": {"a": 1}}'), theirs=NEVER),
    "nan": Case(shows="`NaN`", test=telling('{"reward": NaN}'), theirs=NEVER),
    "overflow": Case(shows="`1e309`", test=telling('{"reward": 1e309}'), theirs=NEVER),
    "infinite": Case(shows="`inf`", test=telling("inf", "txt"), theirs=NEVER),
    "words": Case(shows="a word", test=telling("good", "txt"), theirs=NEVER),
    "list": Case(shows="a list", test=telling("[1]"), theirs=NEVER),
    "empty": Case(shows="an empty file", test=judged(f": >{REWARD}.txt"), theirs=NEVER),
    "nothing": Case(shows="no file", test=judged("exit 0"), theirs={ORACLE: ERROR, NOP: ERROR}),
}
"""What tests write, and what is read."""

WAYS: Final[Mapping[str, Case]] = {
    "python": Case(
        shows="`test.sh` runs by its shebang",
        test=(
            "#!/usr/bin/python3\nimport pathlib\nanswer = pathlib.Path('answer.txt')\n"
            "ok = answer.exists() and answer.read_text() == '42\\n'\n"
            f"pathlib.Path('{REWARD}.txt').write_text(str(int(ok)))\n"
        ),
        theirs=ALL,
    ),
    "workdir": Case(
        shows="`environment.workdir`",
        toml=PUBLIC + 'workdir = "/elsewhere"\n',
        dockerfile="RUN mkdir /elsewhere\n",
        test=finding('[ "$(cat /elsewhere/answer.txt)" = 42 ] && [ "$PWD" = /elsewhere ]'),
        theirs=ALL,
    ),
    "users": Case(
        shows="`agent.user` and `verifier.user`",
        toml=changed("[agent]", '[agent]\nuser = "app"').replace("[verifier]", '[verifier]\nuser = "app"'),
        dockerfile="RUN chown app /app\n",
        test=finding('[ "$(id -u)-$(stat -c %u answer.txt)" = 1234-1234 ]'),
        theirs=GOOD,
    ),
    "variables": Case(
        shows="variables of the environment, the verifier and the solution",
        toml=PUBLIC + 'env = {A = "1"}\n\n[solution]\nenv = {C = "3"}\n\n[verifier.env]\nB = "2"\n',
        solve=solving('echo "$A$B$C" >answer.txt'),
        test=finding('[ "$A$B$C:$(cat answer.txt)" = 12:13 ]'),
        theirs=GOOD,
    ),
    "health": Case(
        shows="a health check that fails at first",
        toml=PUBLIC
        + "\n[environment.healthcheck]\ninterval_sec = 1.0\nretries = 5\n"
        + "command = '[ -e /app/asked ] || { touch /app/asked; exit 1; }'\n",
        test=finding('[ -e asked ] && [ "$(cat answer.txt)" = 42 ]'),
        theirs=GOOD,
    ),
    "solution_fails": Case(
        shows="a solution that exits with 7", solve=solving("echo 42 >answer.txt; exit 7"), theirs=GOOD
    ),
    "agent_late": Case(
        shows="an agent that is out of time is judged",
        toml=changed("timeout_sec = 60.0\n\n[verifier]", "timeout_sec = 20.0\n\n[verifier]"),
        solve=solving("echo 42 >answer.txt; sleep 100"),
        theirs=GOOD,
    ),
    "tests_late": Case(
        shows="tests that are out of time, behind a reward",
        toml=changed("timeout_sec = 60.0\n\n[environment]", "timeout_sec = 20.0\n\n[environment]"),
        test=judged(f"echo $ok >{REWARD}.txt; sleep 100"),
        theirs=NEVER,
    ),
    "system": Case(
        shows="an agent that replaces a tool of the tests",
        test=TEST.replace("/bin/sh", "/usr/bin/bash"),  # busybox takes its own
        solve=solving(
            "printf '#!/bin/sh\\necho 42\\n' >/bin/new && chmod 755 /bin/new && mv /bin/new /bin/cat"
        ),
        theirs=GOOD,
    ),
    "running": Case(
        shows="a process that the agent left running",
        solve=solving("sleep 4242 >/dev/null 2>&1 & echo $! >pid"),
        test=finding('tr "\\0" " " <"/proc/$(cat pid)/cmdline" | grep -q "sleep 4242"'),
        theirs=GOOD,
        ours={ORACLE: "0"},
        why="at the barrier the agent's processes end",
    ),
    "forged": Case(
        shows="a process that writes a reward of its own while tests run",
        solve=solving(
            f'sh -c \'while :; do echo "{{\\"reward\\": 1}}" >{REWARD}.json; sleep 1; done\' '
            ">/dev/null 2>&1 &"
        ),
        test=f"#!/bin/sh\nsleep 3\necho 0 >{REWARD}.txt\n",
        theirs=GOOD,
        ours={ORACLE: "0"},
        why="at the barrier the agent's processes end",
    ),
    "planted": Case(
        shows="a file that the agent puts beside the tests",
        solve=solving("mkdir -p /tests && echo 1 >/tests/planted"),
        test=finding("[ -e /tests/planted ]"),
        theirs=GOOD,
        ours={ORACLE: "0"},
        why="`/tests` is made anew",
    ),
    "home": Case(
        shows="work in `~`",
        solve=solving("echo 42 >~/answer.txt"),
        test=finding('[ "$(cat ~/answer.txt)" = 42 ]'),
        theirs=GOOD,
        ours={ORACLE: "0"},
        why="the agent's HOME is its own; `/root/answer.txt` would be the same file for both",
    ),
    "rights": Case(
        shows="`chroot`",
        solve=solving("chroot / /bin/sh -c 'echo 42 >/app/answer.txt'"),
        theirs=GOOD,
        ours={ORACLE: "0"},
        why="containers have six capabilities",
    ),
    "entrypoint": Case(
        shows="an `ENTRYPOINT`",
        dockerfile='ENTRYPOINT ["/bin/sh", "-c", "echo 42 >/app/start; exec \\"$@\\"", "entry"]\n',
        test=finding("[ -e /app/start ]"),
        theirs={NOP: "1"},
        ours={NOP: REFUSED},
        why="`lab` starts containers itself",
    ),
    "buildkit": Case(
        shows="a Dockerfile that takes BuildKit",
        dockerfile="RUN --mount=type=tmpfs,target=/scratch echo 42 >/app/start\n",
        test=finding("[ -e /app/start ]"),
        theirs={NOP: "1"},
        ours={NOP: REFUSED},
        why="images are built without it",
    ),
}
"""What happens around the tests."""
CASES: Final[Mapping[str, Case]] = {**REWARDS, **WAYS}


def write_cases(folder: Path, image: str, who: str, *, refused: bool | None = None) -> Path:
    """Write the tasks on which somebody works: all, those that `lab` refuses, or the others."""
    for name, case in CASES.items():
        if who not in case.theirs or refused not in {None, case.of_us()[who] == REFUSED}:
            continue
        dockerfile = f"FROM {image}\nWORKDIR /app\n{case.dockerfile}"
        solve = case.half if who == HALF else case.solve
        write_task(folder / name, case.toml, test=case.test, solve=solve, dockerfile=dockerfile)
    return folder
