"""What follows for people: conditions, warnings, outages, retries, the sentence."""
