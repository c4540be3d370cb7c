"""What is kept of a finished attempt: masked, capped, hashed, synced."""
