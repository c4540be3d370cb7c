"""The machine that joins schedule, executor, policy and store."""
