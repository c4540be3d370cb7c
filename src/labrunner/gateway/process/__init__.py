"""The gateway as a process of its own: one for each run, which outlives the runner."""
