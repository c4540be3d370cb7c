"""The nodes of a run: which are there, how each comes to be used, and what it is asked."""
