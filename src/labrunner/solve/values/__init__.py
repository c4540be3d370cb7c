"""The values that solvers, scorers and models hand each other."""
