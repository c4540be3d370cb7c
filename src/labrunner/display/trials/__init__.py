"""What one trial looks like on a terminal, live or finished."""
