"""Owns a run until it is told to stop: a process of its own, so that it can be stopped, killed and forked."""

import os
import subprocess
import sys
from pathlib import Path

from labrunner.store.layout import RunPaths
from labrunner.store.rows.lock import acquire


def main(root: Path, how: str) -> None:
    with acquire(RunPaths(root)):
        if how == "child":
            # Not closing descriptors is what careless libraries do: the lock must not be among them.
            quiet = subprocess.DEVNULL
            child = subprocess.Popen(["sleep", "600"], close_fds=False, stdin=quiet, stdout=quiet)
            print(child.pid, flush=True)
        elif how == "fork":
            ready, say = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(1)
                os.write(say, b".")
                sys.stdin.readline()
                os._exit(0)
            os.read(ready, 1)
            print(pid, flush=True)
        else:
            print("owned", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
