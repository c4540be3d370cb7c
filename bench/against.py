"""`scripts/bench --against COMMIT [NAME...]`: this tree and an earlier one, in turns, in one go.

Rules: both do the same work in the same minutes, every other round the other way round; a figure's ratio is
taken within a round, and the median over the rounds counts. Sides that are not ours (bare loops, the
interpreter alone) are the same work in both trees: what they differ by is the machine's weather, and is told.
So are the parts of a trial: a few milliseconds each, the agent's by a container's clock of hundredths.
Each tree has the packages that it pins. A bench that the earlier tree did not have is named, and left out.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.figures import Figure, last

HERE: Final = Path(__file__).parents[1]
WITHIN: Final = 1.05
"""How much more than before is still alike."""
_RATES: Final = frozenset({"trials/s"})
"""Units of which more is better."""
_TOLD_ONLY: Final = ("bare", "python -c", "reading", "of a trial:")
"""How figures begin that are of the other sides, or say where another one comes from."""


def compare(names: Sequence[str], commit: str, rounds: int) -> bool:
    """Print how much more or less each figure is than at that commit; whether none of ours got 5% worse."""
    with _checked_out(commit) as earlier:
        known = [name for name in names if (earlier / "bench" / f"{name}.py").exists()]
        worse = [figure for name in known for figure in _tell(earlier, name, commit, rounds)]
        new = [name for name in names if name not in known]
    if new:
        print(f"not in {commit}: {', '.join(new)}")
    print(f"more than {WITHIN - 1:.0%} worse: {', '.join(worse) or 'none'}")
    return not worse


def _tell(earlier: Path, name: str, commit: str, rounds: int) -> Iterator[str]:
    """Print a bench's figures; give those that got worse."""
    for figure, ratios in _take_turns(earlier, name, rounds).items():
        middle, spread = statistics.median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{name}: {figure}: {middle:.3f}x of {commit} ({spread}, {rounds} rounds)", flush=True)
        if middle > WITHIN and not figure.startswith(_TOLD_ONLY):
            yield f"{name}: {figure}"


def _take_turns(earlier: Path, name: str, rounds: int) -> dict[str, list[float]]:
    """Every figure's ratios, round by round."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="lab-bench-against-") as place:
        for number in range(rounds):
            trees = (earlier, HERE) if number % 2 else (HERE, earlier)
            taken = {tree: _take(tree, name, Path(place) / f"{number}-{tree.name}") for tree in trees}
            for figure, ratio in _ratios(taken[earlier], taken[HERE]):
                found.setdefault(figure, []).append(ratio)
    return found


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lab-bench-earlier-") as place:
        tree = Path(place) / "earlier"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", tree, commit], cwd=HERE, check=True)
        try:
            subprocess.run(["bash", "scripts/install"], cwd=tree, check=True, stdout=sys.stderr)
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=HERE, check=True)


def _take(tree: Path, name: str, results: Path) -> dict[str, Figure]:
    """One round of a bench in a tree."""
    env = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    python = tree / ".venv" / "bin" / "python"
    argv = [str(python), "-m", "bench", name, "--rounds", "1", "--results", str(results)]
    done = subprocess.run(argv, cwd=tree, env=env, check=False, stdout=subprocess.DEVNULL)
    result = last(name, results)
    if done.returncode != 0 or result is None:
        raise SystemExit(f"bench {name} failed in {tree} with exit status {done.returncode}; see above")
    return {figure.name: figure for figure in result.figures if figure.unit != "x"}


def _ratios(before: dict[str, Figure], now: dict[str, Figure]) -> Iterator[tuple[str, float]]:
    for name in before.keys() & now.keys():
        if before[name].value and now[name].value:
            ratio = now[name].value / before[name].value
            yield name, 1 / ratio if now[name].unit in _RATES else ratio
