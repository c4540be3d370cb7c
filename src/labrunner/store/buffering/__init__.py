"""The buffer: results that finished before their turn, attempts under way, and what is lost with it."""
