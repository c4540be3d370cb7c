"""Making a run and writing it: one thread owns its files."""
