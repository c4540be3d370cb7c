from collections.abc import Iterator

import pytest

from tests.crash.driving import Driver, open_driver


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with open_driver() as opened:
        yield opened
