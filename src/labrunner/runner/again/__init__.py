"""Runs made from other runs: retries, regradings, sets."""
