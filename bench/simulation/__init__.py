"""Simulations of what the statistics promise: coverage, false alarms, power. See `scripts/simulate`."""
