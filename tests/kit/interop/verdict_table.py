"""The tables of `docs/foreign-tasks.md` that say how other harnesses and `lab` judge the same tasks."""

from collections.abc import Iterator, Mapping

from tests.kit.interop import harbor_cases, swe_bench_cases
from tests.kit.interop.verdicts import HALF, NOP, ORACLE, Said

HEADS = {ORACLE: "its solution", HALF: "half of one", NOP: "nobody"}


def render() -> str:
    """The tables."""
    parts = (
        ("Harbor", harbor_cases.CASES, (ORACLE, HALF, NOP)),
        ("SWE-bench's harness", swe_bench_cases.CASES, (ORACLE, NOP)),
    )
    return "\n".join(line for name, cases, who in parts for line in _table(name, cases, who))


def _table(name: str, cases: Mapping[str, Said], columns: tuple[str, ...]) -> Iterator[str]:
    alike = sum(case.of_us() == case.theirs for case in cases.values())
    told = "Cells have its verdicts, heads say who worked."
    yield f"**{name}**: {len(cases)} tasks, {alike} judged alike. {told}\n"
    yield f"| task | {' | '.join(HEADS[who] for who in columns)} | `lab`, where it differs | because |"
    yield f"|---|{'---|' * len(columns)}---|---|"
    for case in cases.values():
        cells = " | ".join(case.theirs.get(who, "") for who in columns)
        differ = ", ".join(_differences(case))
        yield f"| {case.shows} | {cells} | {differ} | {case.why} |"
    yield ""


def _differences(case: Said) -> Iterator[str]:
    for who, verdict in case.ours.items():
        assert case.theirs[who] != verdict, f"{case.shows}: {who} does not differ"
        yield f"{HEADS[who]}: {verdict}"
