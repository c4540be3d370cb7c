"""Answers from calls that were recorded before, in the place of a provider's."""
