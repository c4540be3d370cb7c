"""One variant: its figures, each with its interval."""
