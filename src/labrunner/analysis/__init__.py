"""What it means: pure functions from committed rows to figures."""
