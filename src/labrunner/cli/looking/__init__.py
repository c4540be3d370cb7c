"""Commands that look at runs: show, compare, query, export, log, verify, invalidate."""
