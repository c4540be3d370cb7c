"""Files that somebody else wrote, perhaps with bad intent: walked, read, masked, copied, counted, removed."""
