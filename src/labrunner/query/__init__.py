"""SQL over runs: read-only for real, on live runs too."""
