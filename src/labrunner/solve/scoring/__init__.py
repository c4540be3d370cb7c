"""From scores to figures and verdicts. Pure."""
