"""Commands around runs: init, clean, completion."""
