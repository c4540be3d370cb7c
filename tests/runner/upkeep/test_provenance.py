import os
import pwd

import pytest

from labrunner.runner.upkeep.provenance import user_name


def test_a_user_that_no_file_knows_goes_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def knows_nobody(uid: int) -> None:
        raise KeyError(uid)

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    # A user whom the machine does not know: nobody can be made unknown.
    monkeypatch.setattr(pwd, "getpwuid", knows_nobody)
    assert user_name() == str(os.getuid())
