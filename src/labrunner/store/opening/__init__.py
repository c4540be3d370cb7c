"""Opening a run that nobody owns: back to a sound state."""
