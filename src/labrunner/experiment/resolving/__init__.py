"""From what was written to the frozen `Experiment`: complete, checked, with its digests."""
