from labrunner.display.checks import show_checks, show_warnings
from labrunner.sandbox.door import Check
from tests.kit.display.printing import to_text

GOOD = Check(name="storage", passed=True, message="a local file system")
BAD = Check(name="disk", passed=False, message="3.0 GB free, min_free_disk_gb asks for 5")
DOUBTFUL = Check(name="limits", passed=False, message="memory can't be limited here", severity="warning")


def test_every_check_has_a_line_and_errors_decide() -> None:
    assert to_text(show_checks([GOOD, DOUBTFUL, BAD])).splitlines() == [
        "         check    found",
        "──────────────────────────────────────────────────────────",
        "ok       storage  a local file system",
        "warning  limits   memory can't be limited here",
        "error    disk     3.0 GB free, min_free_disk_gb asks for 5",
        "",
        "1 error: nothing can run before this is mended",
    ]


def test_warnings_do_not_stop_a_run() -> None:
    assert to_text(show_checks([GOOD, DOUBTFUL])).endswith("ready to run, with 1 warning\n")
    assert to_text(show_checks([GOOD])).endswith("ready to run\n")


def test_warnings_can_be_shown_alone() -> None:
    shown = show_warnings([GOOD, BAD, DOUBTFUL])
    assert shown is not None
    assert to_text(shown) == "warning: limits: memory can't be limited here\n"
    assert show_warnings([GOOD, BAD]) is None
