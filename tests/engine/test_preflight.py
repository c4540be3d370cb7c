import pytest

from labrunner.engine.preflight import check_secrets
from labrunner.engine.run import refuse_failed
from labrunner.errors import InputError, InputErrors
from labrunner.sandbox.door import Check
from tests.builders import make_agent, make_experiment, make_variant

ASKING = make_experiment(variants=(make_variant(agent=make_agent(secrets=("KEY", "TOKEN"))),))


def test_a_secret_too_short_to_be_masked_is_warned_of() -> None:
    (check,) = check_secrets(ASKING, {"KEY": "sesame", "TOKEN": "long enough"})
    assert (check.passed, check.severity) == (False, "warning")
    assert check.message == "KEY: shorter than 8 characters, so not masked where it is printed"


def test_a_missing_secret_is_an_error_and_given_ones_are_named_without_values() -> None:
    (missing,) = check_secrets(ASKING, {"KEY": "long enough"})
    assert (missing.passed, missing.severity) == (False, "error")
    assert "no value for TOKEN" in missing.message
    (given,) = check_secrets(ASKING, {"KEY": "long enough", "TOKEN": "so is this"})
    assert given == Check(name="secrets", passed=True, message="KEY, TOKEN: given")


def test_every_failed_check_has_a_line_of_its_own_and_warnings_refuse_nothing() -> None:
    disk, engine = (Check(name=name, passed=False, message="no") for name in ("disk", "docker"))
    refuse_failed((Check(name="grader", passed=False, severity="warning", message="no"),))
    with pytest.raises(InputError, match=r"^preflight: disk: no$"):
        refuse_failed((disk,))
    with pytest.raises(InputErrors, match=r"^preflight: disk: no\npreflight: docker: no$"):
        refuse_failed((disk, engine))
