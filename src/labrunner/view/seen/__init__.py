"""What is kept in memory of runs that somebody looks at, and the parts of it that fit a screen."""
