"""Solvers, scorers and tools that come with the package."""
