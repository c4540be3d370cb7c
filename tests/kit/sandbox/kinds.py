"""Kinds of sandbox that a test goes through without an engine."""

import pytest

KINDS = ["process", pytest.param("bubblewrap", marks=pytest.mark.bwrap)]
