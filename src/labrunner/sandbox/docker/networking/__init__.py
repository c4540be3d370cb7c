"""Networks that containers are on, and the one that a run has for itself."""
