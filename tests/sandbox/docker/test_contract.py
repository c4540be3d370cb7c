"""What every sandbox promises, tried on containers."""

from tests.kit.sandbox.contract import *  # noqa: F403 - collected from here
