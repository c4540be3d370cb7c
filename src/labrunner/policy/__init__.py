"""What follows from what happened: pure functions over records, no clock, no files."""
