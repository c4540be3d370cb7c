"""After a crash or a stop: continuing in place, collecting what is left, recovering a report."""
