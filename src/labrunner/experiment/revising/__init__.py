"""An experiment asked again: what changed, another grader, another policy."""
