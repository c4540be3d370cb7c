"""Runs from Python: `eval()` and its kin, and logs. What `labrunner` and `labrunner.log` hand on."""
