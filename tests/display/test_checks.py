from dataclasses import replace

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


def test_nodes_of_a_cluster_are_a_table_and_what_was_found_is_told_once() -> None:
    docker = Check(name="docker", passed=True, message="Docker 27", node="n1")
    image = Check(name="image", passed=True, message="app is there", node="n1")
    missing = replace(image, passed=False, message="app can't be pulled", node="n2")
    checks = [GOOD, docker, image, replace(docker, node="n2"), missing]
    shown = to_text(show_checks(checks)).splitlines()
    assert shown == [
        "    check    found",
        "────────────────────────────────",
        "ok  storage  a local file system",
        "",
        "node  docker  image",
        "───────────────────",
        "n1    ok      ok",
        "n2    ok      error",
        "",
        "       check   nodes  found",
        "─────────────────────────────────────────",
        "ok     docker  all    Docker 27",
        "ok     image   n1     app is there",
        "error  image   n2     app can't be pulled",
        "",
        "1 error: a run begins without n2",
    ]


def test_a_warning_says_of_which_node_it_is() -> None:
    shown = show_warnings([replace(DOUBTFUL, node="n2")])
    assert shown is not None
    assert to_text(shown) == "warning: limits on n2: memory can't be limited here\n"


def test_where_no_node_passes_nothing_can_run() -> None:
    checks = [replace(BAD, node="n1"), replace(BAD, node="n2")]
    shown = to_text(show_checks(checks))
    assert shown.endswith("2 errors: nothing can run before this is mended\n")


def test_what_several_nodes_are_warned_of_is_told_once() -> None:
    old = replace(DOUBTFUL, message="too old")
    shown = show_warnings([replace(old, node=f"n{number}") for number in range(9)])
    assert shown is not None
    assert to_text(shown) == ("warning: limits on n0, n1, n2, n3, n4, n5, n6, n7, … (9 in all): too old\n")
