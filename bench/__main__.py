"""`scripts/bench [NAME...]`: runs benches, prints what each found with its ratio last, keeps a line of it."""

import argparse
import sys
from pathlib import Path

from bench import against, figures, page
from bench.catalogue import NAMES, Bench, find


def main(argv: list[str]) -> int:
    names, rest = _split(argv)
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--write-docs", action="store_true", help="fill docs/performance.md from the results")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--results", type=Path, default=figures.RESULTS, help="where results are kept")
    parser.add_argument("--rounds", type=int, help="rounds of each bench (default: its own, at least 3)")
    parser.add_argument("--against", metavar="COMMIT", help="compare with an earlier tree, in turns")
    for size in sorted({size for name in NAMES for size in find(name).sizes}):
        parser.add_argument(f"--{size}", type=int, help="a size, for the benches that have it")
    options = parser.parse_args(rest)
    given = {name: value for name, value in vars(options).items() if isinstance(value, int)}
    if options.against:
        return 0 if against.compare(names or NAMES, options.against, options.rounds or 3) else 1
    benches = [find(name) for name in names]
    if not benches and not options.write_docs:
        benches = [find(name) for name in NAMES]
    met = [_run(bench, given, options.results) for bench in benches]
    if options.write_docs:
        page.fill(results=options.results)
    return 1 if options.strict and not all(met) else 0


def _run(bench: Bench, given: dict[str, int], results: Path) -> bool:
    """Run one bench, print and keep what it found; tell whether it is within its bars."""
    sizes = {name: given.get(name, value) for name, value in bench.sizes.items()}
    rounds = given.get("rounds", bench.rounds)
    print(f"bench {bench.name}: {bench.work}\n  against: {bench.against}")
    print("  " + ", ".join([*(f"{name} {value:,}" for name, value in sizes.items()), f"rounds {rounds}"]))
    found = bench.measure(sizes, rounds)
    result = figures.Result(
        bench=bench.name,
        measured_at=figures.now(),
        sizes=sizes,
        rounds=rounds,
        figures=found.figures,
        samples={name: [round(value, 4) for value in values] for name, values in found.samples.items()},
        host=figures.look_at_host(),
    )
    figures.keep(result, results)
    width = max(len(figure.name) for figure in result.figures)
    for figure in result.figures:
        print(f"  {figure.name:<{width}}  {figures.show(figure)}")
    print(flush=True)
    return all(figure.is_met for figure in result.figures)


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Names of benches first, then options."""
    count = next((n for n, word in enumerate(argv) if word.startswith("-")), len(argv))
    unknown = [name for name in argv[:count] if name not in NAMES]
    if unknown:
        raise SystemExit(f"there is no bench {unknown[0]!r}; there are: {', '.join(NAMES)}")
    return argv[:count], argv[count:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
