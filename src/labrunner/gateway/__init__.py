"""What an attempt may reach: its model, metered and recorded. Knows nothing about grading."""
