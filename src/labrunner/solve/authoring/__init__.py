"""What authors make: solvers, scorers, datasets, commands."""
