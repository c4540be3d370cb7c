"""What a new run can take over from earlier ones: results, kept work, history."""
