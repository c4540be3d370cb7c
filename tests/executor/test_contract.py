"""What every executor promises, tried on those that need no engine."""

from tests.kit.executor.contract import *  # noqa: F403 - collected from here
