"""Two variants or two runs: paired, questioned, compared; and what a plan could show."""
