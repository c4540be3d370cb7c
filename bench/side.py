"""The process in which one side of a bench does its work: `python -m bench.side BENCH SIDE FOLDER SIZES`."""

import gc
import importlib
import resource
import sys
import time
from pathlib import Path

import msgspec

from bench.rounds import Side, Told


def main(bench: str, side: str, folder: str, sizes: str) -> None:
    module = importlib.import_module(f"bench.{bench}")
    sides: dict[str, Side] = module.SIDES
    work = sides[side](Path(folder), msgspec.json.decode(sizes, type=dict[str, int]))
    gc.collect()
    gc.freeze()  # what was prepared is not the work's to look after
    usage = resource.getrusage(resource.RUSAGE_SELF)
    started = time.monotonic()
    extra = work()
    wall_s = time.monotonic() - started
    told = Told(
        wall_s=wall_s, cpu_before_s=usage.ru_utime + usage.ru_stime, extra=dict(extra) if extra else {}
    )
    sys.stdout.buffer.write(msgspec.json.encode(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
