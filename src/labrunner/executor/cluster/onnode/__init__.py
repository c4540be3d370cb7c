"""A node's end of a cluster: what Ray starts there, and what it does for a run."""
