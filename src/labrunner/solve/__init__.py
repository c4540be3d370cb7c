"""Python tasks: datasets, solvers, tools, scorers and models, carried out by the same runner as files."""
