"""Options of a run: declared once, for the command line, Python, variables, records and policy."""
