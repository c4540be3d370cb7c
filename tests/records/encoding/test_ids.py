import subprocess
import sys

from labrunner.records.encoding.ids import make_token

FORKING = """
import os
from labrunner.records.encoding.ids import make_token
make_token()
if os.fork() == 0:
    print(make_token(), flush=True)
    os._exit(0)
os.wait()
print(*(make_token() for _ in range(200)))
"""


def test_tokens_are_all_different_and_of_one_form() -> None:
    tokens = [make_token() for _ in range(1000)]
    assert len(set(tokens)) == 1000
    assert {len(token) for token in tokens} == {32}
    assert all(int(token, 16) >= 0 for token in tokens)


def test_a_forked_process_makes_tokens_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True)
    theirs, ours = done.stdout.splitlines()
    assert len(theirs) == 32
    assert theirs not in ours.split()
