"""Commands that carry something out: run, plan, doctor, continue, retry, set, regrade, stop."""
