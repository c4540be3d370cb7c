"""Looking at runs: results, summaries, single trials, what a crash left."""
