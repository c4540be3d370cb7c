"""One owner's time at a run: the loop, and everything that it calls by name."""
