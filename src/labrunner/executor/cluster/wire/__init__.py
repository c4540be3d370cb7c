"""Many questions and answers in few messages, between a run's coordinator and a node's worker."""
