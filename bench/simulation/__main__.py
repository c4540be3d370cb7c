"""`scripts/simulate`: draws thousands of runs and counts how often what the statistics promise holds.

Without arguments a short form, which `make test` runs too. `--long` takes some minutes, `--limits` a second;
both write tables of docs/statistics.md. Exit code 1 where a bound is broken.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from bench.simulation.catalogue import CATALOGUE, Setting, find
from bench.simulation.studies import Figures
from bench.simulation.tables import BEGIN, BEGIN_LIMITS, fill, render, render_limits

Job = tuple[str, Setting, int]


def simulate(job: Job) -> Figures:
    """One setting of one study."""
    name, setting, runs = job
    study = find(name)
    return study.run(*setting, runs, **study.options)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(study.name for study in CATALOGUE))
    parser.add_argument("--long", action="store_true", help="all settings; writes their tables")
    parser.add_argument("--limits", action="store_true", help="what no rule can have, counted; likewise")
    asked = parser.parse_args(words)
    if asked.limits:
        told = render_limits()
        print(told)
        fill(BEGIN_LIMITS, told)
        return 0
    chosen = [find(name) for name in asked.names] or list(CATALOGUE)
    jobs: list[Job] = [
        (study.name, setting, study.long_runs if asked.long else study.quick_runs)
        for study in chosen
        for setting in (study.long if asked.long else study.quick)
    ]
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(simulate, jobs))
    broken = [
        sentence
        for (name, setting, runs), figures in zip(jobs, found, strict=True)
        for sentence in find(name).broken(setting, figures, runs)
    ]
    for (name, setting, _), figures in zip(jobs, found, strict=True):
        told = ", ".join(f"{figure} {value:.3f}" for figure, value in figures.items())
        print(f"{name} {setting if len(str(setting)) < 70 else '…'}: {told}")
    print("\n".join([f"{len(jobs)} settings, {len(broken)} bounds broken", *broken]))
    if asked.long:
        results = [(name, setting, each) for (name, setting, _), each in zip(jobs, found, strict=True)]
        fill(BEGIN, render(results))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
