"""Who is to blame when an attempt ends without a grade. What follows from each is `labrunner.policy`'s."""

from enum import StrEnum


class Cause(StrEnum):
    """The parties that can be at fault. An agent is never one: how it ends is a measurement."""

    GRADE_ERROR = "grade_error"
    SETUP = "setup"
    SANDBOX = "sandbox"
    PROVIDER = "provider"
    ACCOUNT = "account"
    REPLAY = "replay"
    SOLVER = "solver"
    RUNNER = "runner"
