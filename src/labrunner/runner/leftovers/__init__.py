"""What an earlier sitting left: attempts under way, counts, folders; found, decided, taken up."""
