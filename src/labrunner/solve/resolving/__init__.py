"""From a `Task` to an `Experiment`, and from a file back to a `Task`."""
