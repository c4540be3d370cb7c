"""Where an attempt runs: the Sandbox door and its adapters. Knows nothing about grading."""
