"""A runner that is there to be killed: carries out one attempt of a crew, in a process of its own."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.kit.executor.crews import Sent
from tests.kit.trial.attempting import HeardNotes

ROOT = Path(__file__).parents[3]


def start_runner(sent: Sent) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "tests.kit.executor.driver", msgspec.json.encode(sent).decode()]
    return subprocess.Popen(words, cwd=ROOT)


async def main(sent: Sent) -> None:
    crew = sent.crew()
    executor = crew.executor()
    try:
        await executor.carry_out(crew.assignment, HeardNotes())
    finally:
        await executor.close()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Sent)))
