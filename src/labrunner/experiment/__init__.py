"""What is asked: authoring models, their resolution to a frozen Experiment, digests, the schedule."""
