"""What an author may write, field by field, and where in which file each value stands."""
