"""What `lab show` says about a crashed run: when it died, what was finished, under way, owed."""

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType

from labrunner.display.text.console import make_fields
from labrunner.display.text.quantities import format_count

NAMED: Final = 5


def show_crash(  # noqa: PLR0913 - a fact each, all of them shown
    *,
    last_sign_at: str,
    has_rebooted: bool | None,
    committed: int,
    buffered: int,
    in_flight: Sequence[tuple[str, str]],
    owed: int,
    lost: str | None,
    next_step: str,
) -> RenderableType:
    """Show a crash; `in_flight` are trials with how far they were."""
    named = [f"{trial} ({state})" for trial, state in in_flight[:NAMED]]
    more = f" and {len(in_flight) - NAMED} more" if len(in_flight) > NAMED else ""
    return make_fields(
        [
            ("last sign of life", f"{last_sign_at}{_reboot(has_rebooted)}"),
            ("safe", f"{committed:,} committed, {buffered:,} finished behind a gap{_safety(lost)}"),
            *([("lost", lost)] if lost is not None else []),
            ("in flight", ", ".join(named) + more if named else "nothing"),
            ("owed", format_count(owed, "trial")),
            ("to go on", next_step),
        ]
    )


def _safety(lost: str | None) -> str:
    return ": nothing of it is lost" if lost is None else ""


def _reboot(has_rebooted: bool | None) -> str:
    match has_rebooted:
        case True:
            return "; the machine was restarted since: power cut or reboot"
        case False:
            return "; the machine was not restarted since: killed, or out of memory or disk"
        case None:
            return ""
