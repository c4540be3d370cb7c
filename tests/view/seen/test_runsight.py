"""What the pages say of a run as a whole."""

import msgspec
import pytest

from labrunner.records.run import RunError
from labrunner.view.seen.runsight import find_next
from tests.kit.store.sample import make_status

STATUS = make_status(
    4, "error", committed=4, buffered=0, updated_at="2026-01-01T00:00:00Z", run_id="r", chain="c"
)


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        ("error", RunError(message="m", trial_id="t"), "lab retry r"),
        ("error", RunError(message="the disk is full"), "lab continue r"),
        ("crashed", None, "lab continue r"),
        ("cancelled", RunError(message="stopped by SIGINT"), "lab continue r"),
        ("success", None, None),
        ("started", None, None),
    ],
)
def test_what_to_type_is_what_the_run_would_accept(
    state: str, error: RunError | None, said: str | None
) -> None:
    assert find_next(state, msgspec.structs.replace(STATUS, error=error), "r") == said
