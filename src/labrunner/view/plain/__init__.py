"""Runs and trials as plain JSON: what `--json` prints, and what pages ask for."""
