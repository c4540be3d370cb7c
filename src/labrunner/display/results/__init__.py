"""What a run and its comparisons look like on a terminal."""
